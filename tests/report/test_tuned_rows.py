"""Rows that were tuned on what the report shows are marked; what tuning spent, chose, and how flat the optimum is."""

import csv
from types import SimpleNamespace

import pytest

from compclip.base.files import write_json
from compclip.config import plan, read, tuning
from compclip.config.cell import Cell
from compclip.config.sections import TEST, VALIDATION, WHOLE
from compclip.report import tuned_rows
from compclip.report.statistics import Interval
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic
from compclip.track import report_rows
from compclip.track.entries import EntryOptions
from tests import fake_runs
from tests.report import made_page
from tests.shipped_files import SHIPPED_PARAMS

LEAK = "has the values of trial 3 of the study search, chosen by sugarcrepe/swap on whole benchmarks"
TABLE = ("negclip", "vit", "scenes")


def write_study(root, params, split=WHOLE, objectives=("sugarcrepe/swap",), method="negclip", **trial):
    """A study whose third trial had these values; the paper's settings, and a failed trial, come before."""
    trials = [
        {"number": 1, "state": "complete", "params": {"train.lr": 1e-6}, "paper": True},
        {"number": 2, "state": "failed", "params": {"train.lr": 1e-6}, "paper": False},
        {"number": 3, "state": "complete", "params": params, "paper": False} | trial,
    ]
    study = {"study": "search", "method": method, "split": split, "trials": trials}
    write_json(root / "studies" / "search" / "trials.json", study | {"objectives": [{"metric": o} for o in objectives]})


def find(root, runs, shown_split=WHOLE, benchmarks=fake_runs.BENCHMARKS):
    return tuned_rows.find_tuned_rows(runs, tuned_rows.read_studies(root), benchmarks, shown_split)


@pytest.mark.parametrize(
    ("params", "changes", "shown_split", "expected"),
    [
        ({"train.lr": 1e-6, "weight": 0.5}, {}, WHOLE, {TABLE}),
        ({"train.lr": 1e-6, "weight": 0.5}, {}, TEST, {TABLE}),  # whole benchmarks have the test items
        ({"train.lr": 1.004e-6}, {}, WHOLE, {TABLE}),  # rounded by hand
        ({"train.lr": 1e-6}, {"objectives": ("summary/Comp",)}, WHOLE, {TABLE}),
        ({"train.lr": 1e-6}, {"split": VALIDATION}, WHOLE, {TABLE}),
        ({"train.lr": 1e-6}, {"split": VALIDATION}, VALIDATION, {TABLE}),
        ({"train.lr": 1e-6}, {"split": VALIDATION}, TEST, set()),  # as it should be
        ({"train.lr": 2e-6}, {}, WHOLE, set()),  # clic's rate is negclip's trial
        ({"train.lr": 1e-6, "weight": 0.7}, {}, WHOLE, set()),
        ({"train.lr": 1e-6}, {"objectives": ("winoground/text",)}, WHOLE, set()),  # is not shown
        ({"train.lr": 1e-6}, {"paper": True}, WHOLE, set()),
        ({"train.lr": 1e-6}, {"method": "clic"}, WHOLE, set()),
    ],
)  # fmt: skip
def test_which_rows_were_tuned_on_what_is_shown(runs, tmp_path, params, changes, shown_split, expected):
    """negclip trains with lr=1e-6 and weight=0.5, clic with lr=2e-6."""
    write_study(tmp_path, params, **changes)
    assert find(tmp_path, runs, shown_split).keys() == expected


def test_the_mark_stands_in_every_form_of_the_report(runs, tmp_path):
    """Page, Markdown, LaTeX, CSV and MLflow's row; of the row alone, with the reason once."""
    write_study(tmp_path, {"train.lr": 1e-6})
    texts = made_page.write(made_page.build_grid_page(runs, tuned=find(tmp_path, runs)), tmp_path / "reports")
    made_page.assert_marked(texts, "§", r"\S{}", "trial 3 of the study search")
    assert all("which favours it" in texts[name] for name in ("index.html", "report.md", "report.tex"))
    assert made_page.read_column(texts, "tuned_on") == {"pretrained": "", "negclip": LEAK, "clic": ""}
    entries = report_rows.make_report_entries(tmp_path, runs, EntryOptions("e", frozenset(), "p", ()))
    tags = {entry.tags["method"]: entry.tags.get("tuned_on") for entry in entries if entry.tags["kind"] == "row"}
    assert tags == {"pretrained": None, "negclip": LEAK, "clic": None}
    assert [entry.note.count("Tuned on what is shown") for entry in entries if "negclip" in entry.key] == [1]


def test_what_a_search_left_open_stands_in_every_form_of_the_report(runs, tmp_path):
    rate = tuned_rows.ChosenParameter("train.lr", 1e-6, 5e-6, (1e-6, 5e-6), at_edge=True)
    tuned = tuned_rows.TunedMethod(
        "negclip", "vit-scenes", "s", ("summary/Comp",), 3, 0, 60.0, 0.0, 1.0, 1, (rate,), rows=(TABLE,)
    )
    texts = made_page.write(made_page.build_grid_page(runs, tuning=[tuned]), tmp_path / "reports")
    note = (
        "was tuned to an edge of the search: nothing beyond train.lr 5e-06 was tried; it cannot be told from the "
        "pretrained model in summary/Comp, by which it was tuned"
    )
    made_page.assert_marked(texts, "‖", r"$\parallel$", note)
    assert made_page.read_column(texts, "search") == {"pretrained": "", "negclip": note, "clic": ""}
    entries = report_rows.make_report_entries(tmp_path, runs, EntryOptions("e", frozenset(), "p", ()))
    [row] = [entry for entry in entries if entry.tags.get("search")]
    assert row.tags["method"] == "negclip" and note in row.tags["search"] and note in row.note


def test_a_new_study_makes_the_report_stale(tmp_path, monkeypatch):
    """The plan has a hash of the studies; without any it is the same wherever it is written."""
    monkeypatch.chdir(tmp_path)
    params = read.load_params(SHIPPED_PARAMS)

    def plan_report():
        return next(document for stage, _, document in plan.build_documents(params) if stage == "report")

    before = plan_report()
    write_study(tmp_path, {"train.lr": 1e-6})
    after = plan_report()
    assert before["studies"] == "" and after == before | {"studies": after["studies"]} != before


# the table of tuning

TRIALS = [  # shares of two objectives; the pretrained model has 0.5 and 0.8
    {"params": {"train.lr": 1e-4, "gamma": 2.0}, "values": [0.55, 0.79], "paper": True},
    {"params": {"train.lr": 2e-4, "gamma": 4.0}, "values": [0.60, 0.80], "paper": False},
    {"params": {"train.lr": 3e-4, "gamma": 1.0}, "values": [0.60, 0.795], "paper": False},
    {"params": {"train.lr": 9e-4, "gamma": 1.0}, "values": [0.40, 0.70], "paper": False},
]
DOCUMENT = {
    "request": {
        "study": {"objectives": ["summary/Comp", "summary/General"]},
        "searches": [
            {"space": {"train.lr": {"float": [5e-5, 2e-4], "log": True}}},
            {"space": {"gamma": {"float": [1.0, 4.0], "log": True}}},
        ],
        "settings": {"method": {"gamma": 2.0}, "train": {"lr": 1e-4}},
    },
    "values": {"train.lr": 2e-4, "gamma": 4.0},
    "studies": ["tune.fsc_clip-b-d-1234", "tune.fsc_clip-b-d-5678"],
    "space": {"train.lr": {"float": [5e-5, 1e-3], "log": True}, "gamma": {"float": [1.0, 4.0], "log": True}},
    "edges": ["gamma"],
    "best": 1,
    "reference": [0.5, 0.8],
    "trials": TRIALS,
    "failed": 1,
    "device_seconds": 90.0,
}


@pytest.fixture
def methods(monkeypatch):
    """One method that was tuned."""
    monkeypatch.setattr(tuning, "read_current", lambda params, root: {"fsc_clip": {"b-d": DOCUMENT}, "finetune": {}})
    cells = [Cell("fsc_clip", "b", "d", seed) for seed in (0, 1)]
    monkeypatch.setattr(tuned_rows.grid, "list_cells", lambda params: cells)
    return tuned_rows.read_tuned_methods(SimpleNamespace(), None)


def test_gains_flatness_and_ranges_by_hand(methods):
    """Gains of 4, 10, 9.5 and -20 points: two trials are flat, and their values are the ranges."""
    [tuned] = methods
    assert (tuned.gain_before, tuned.gain, tuned.flat_trials) == (pytest.approx(4), pytest.approx(10), 2)
    assert [(p.name, p.before, p.chosen, *p.flat) for p in tuned.parameters] == [
        ("train.lr", 1e-4, 2e-4, 2e-4, 3e-4),
        ("gamma", 2.0, 4.0, 1.0, 4.0),
    ]
    assert tuned_rows.tabulate_tuning(methods) == [[
        "fsc_clip", "b-d", "4 + 1 failed", "1.5", "+4.0", "+10.0", "2 of 4",
        "train.lr 0.0002 (before 0.0001; 0.0002 to 0.0003; widened to 5e-05 to 0.001); "
        "gamma 4 (before 2; 1 to 4; at an edge)",
    ]]  # fmt: skip


def test_the_csv(methods):
    """A row a parameter; nothing where nothing is tuned."""
    rows = list(csv.DictReader(tuned_rows.format_tuning_csv(methods).splitlines()))
    assert [row["parameter"] for row in rows] == ["train.lr", "gamma"]
    assert [row["at_edge"] for row in rows] == ["False", "True"] and float(rows[0]["searched_high"]) == 1e-3
    assert float(rows[1]["chosen"]) == 4 and float(rows[1]["flat_low"]) == 1 and rows[0]["flat_trials"] == "2"
    assert tuned_rows.format_tuning_csv([]) == ""


def test_choices_are_listed():
    """Values that are no numbers have no range: all that the flat trials had."""
    assert tuned_rows._range(["last", "mean", "last"]) == ("last, mean", "last, mean")
    assert tuned_rows._range([True, False]) == ("False, True", "False, True")


@pytest.mark.parametrize(("verdicts", "is_like_pretrained"), [((0, 0), True), ((1, 0), False), ((0, -1), False)])
def test_a_row_says_where_its_search_left_doubts(methods, verdicts, is_like_pretrained):
    """At an edge, and where none of the columns that chose tells the row from the pretrained model."""
    columns = (Column("summary", "Comp"), Column("summary", "General"), Column("sugarcrepe", "swap"))
    gap = Interval(0.0, -0.1, 0.1, 10)
    cells = {
        c: Statistic(0.5, None, 2, difference=gap, verdict=v) for c, v in zip(columns, (*verdicts, 1), strict=True)
    }
    table = ResultTable("b", "d", columns, (MethodRow("fsc_clip", (), cells),))
    notes = tuned_rows.describe_searches([table], methods)
    [note] = notes.values()
    assert [*notes] == [("fsc_clip", "b", "d")] and "nothing beyond gamma 4 was tried" in note
    like_pretrained = "cannot be told from the pretrained model in summary/Comp, summary/General"
    assert (like_pretrained in note) is is_like_pretrained

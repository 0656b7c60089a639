"""A row that was tuned on what the report shows is marked wherever it is shown; numbers of fake_runs."""

from __future__ import annotations

import csv

import pytest

from compclip.base.files import write_json
from compclip.config import plan, read
from compclip.config.sections import TEST, VALIDATION, WHOLE
from compclip.report import report_page, tuned_rows
from compclip.report.run_details import collect_runs
from compclip.track import report_rows
from compclip.track.entries import EntryOptions
from tests import fake_runs
from tests.conftest import ROOT
from tests.report import made_page

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


@pytest.fixture
def runs(tmp_path):
    """negclip trains with lr=1e-6 and weight=0.5, clic with lr=2e-6."""
    return collect_runs(fake_runs.cells(), fake_runs.BENCHMARKS, fake_runs.make(tmp_path))[0]


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
    write_study(tmp_path, params, **changes)
    assert find(tmp_path, runs, shown_split).keys() == expected


def test_the_mark_stands_in_every_form_of_the_report(runs, tmp_path):
    """Page, Markdown, LaTeX, CSV and MLflow's row; of the row alone, with the reason once."""
    write_study(tmp_path, {"train.lr": 1e-6})
    page = made_page.build_page(runs, fake_runs.BENCHMARKS, None, [], [], tuned=find(tmp_path, runs))
    report_page.write_report(page, tmp_path / "reports")
    for name, mark in (("index.html", "negclip §"), ("report.md", "negclip §"), ("report.tex", r"negclip \S{}")):
        text = (tmp_path / "reports" / name).read_text()
        assert mark in text and mark.replace("negclip", "clic") not in text.replace("negclip", ""), name
        assert "trial 3 of the study search" in text and "which favours it" in text
    lines = list(csv.DictReader((tmp_path / "reports" / "report.csv").open()))
    assert {line["method"]: line["tuned_on"] for line in lines} == {"pretrained": "", "negclip": LEAK, "clic": ""}
    entries = report_rows.make_report_entries(tmp_path, runs, EntryOptions("e", frozenset(), "p", ()))
    tags = {entry.tags["method"]: entry.tags.get("tuned_on") for entry in entries if entry.tags["kind"] == "row"}
    assert tags == {"pretrained": None, "negclip": LEAK, "clic": None}
    assert [entry.note.count("Tuned on what is shown") for entry in entries if "negclip" in entry.key] == [1]


def test_what_a_search_left_open_stands_in_every_form_of_the_report(runs, tmp_path):
    rate = tuned_rows.ChosenParameter("train.lr", 1e-6, 5e-6, (1e-6, 5e-6), at_edge=True)
    tuned = tuned_rows.TunedMethod(
        "negclip", "vit-scenes", "s", ("summary/Comp",), 3, 0, 60.0, 0.0, 1.0, 1, (rate,), rows=(TABLE,)
    )
    page = made_page.build_page(runs, fake_runs.BENCHMARKS, None, [], [], tuning=[tuned])
    report_page.write_report(page, tmp_path / "reports")
    note = (
        "was tuned to an edge of the search: nothing beyond train.lr 5e-06 was tried; it cannot be told from the "
        "pretrained model in summary/Comp, by which it was tuned"
    )
    for name, mark in (("index.html", "negclip ‖"), ("report.md", "negclip ‖"), ("report.tex", r"negclip $\parallel$")):
        text = (tmp_path / "reports" / name).read_text()
        assert mark in text and note in text and mark.replace("negclip", "clic") not in text.replace("negclip", "")
    lines = list(csv.DictReader((tmp_path / "reports" / "report.csv").open()))
    assert {line["method"]: line["search"] for line in lines} == {"pretrained": "", "negclip": note, "clic": ""}
    entries = report_rows.make_report_entries(tmp_path, runs, EntryOptions("e", frozenset(), "p", ()))
    [row] = [entry for entry in entries if entry.tags.get("search")]
    assert row.tags["method"] == "negclip" and note in row.tags["search"] and note in row.note


def test_a_new_study_makes_the_report_stale(tmp_path, monkeypatch):
    """The plan has a hash of the studies; without any it is the same wherever it is written."""
    monkeypatch.chdir(tmp_path)
    params = read.load_params(ROOT / "params.yaml")

    def plan_report():
        return next(document for stage, _, document in plan.build_documents(params) if stage == "report")

    before = plan_report()
    write_study(tmp_path, {"train.lr": 1e-6})
    assert before["studies"] == "" and plan_report() == before | {"studies": plan_report()["studies"]} != before

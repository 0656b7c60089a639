"""What tuning spent, chose, and how flat the optimum is: by hand, as the page, Markdown and CSV have it."""

from __future__ import annotations

import csv
from types import SimpleNamespace

import pytest

from compclip.config import tuning
from compclip.config.cell import Cell
from compclip.report import tuned_rows
from compclip.report.statistics import Interval
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic

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

"""Bold and underlined where the order is decided, ≈ where it is not."""

import pytest

from compclip.config.sections import HOLM
from compclip.report import decisions, table_formats, tables
from compclip.report.tables import Column
from tests.report.test_crossed import run

ACCURACY = Column("b", "a")


def make_table(column=ACCURACY, **shares):
    """A table of three seeds over 100 items, of which the methods have so many right; seeds differ by one item."""
    runs = []
    for method, share in shares.items():
        for seed in range(3):
            right = share + (seed - 1)
            runs.append(run(method, seed, a="1" * right + "0" * (100 - right)))
    (table,) = tables.build_tables(runs, [column])
    return table


def read_marks(table):
    marks = {}
    for row in table.rows:
        (statistic,) = row.statistics.values()
        marks[row.method] = (statistic.rank, statistic.equal_to)
    return marks


@pytest.mark.parametrize(
    ("shares", "column", "marks"),
    [
        ({"clic": 90, "negclip": 60, "finetune": 30}, ACCURACY, [(1, ""), (2, ""), (0, "")]),
        ({"clic": 90, "negclip": 31, "finetune": 30}, ACCURACY, [(1, ""), (0, ""), (0, "")]),  # an open second
        ({"clic": 90, "negclip": 60, "finetune": 30}, Column("b", "a", lower=True), [(0, ""), (2, ""), (1, "")]),
        ({"pretrained": 90, "negclip": 60}, ACCURACY, [(1, ""), (2, "")]),
        ({"clic": 90, "negclip": 60}, Column("b", "a", score=True), [(0, ""), (0, "")]),  # cosines have no order
    ],
)
def test_a_decided_order_has_its_best_and_second(shares, column, marks):
    """Where less is better the least is best, and the pretrained model takes part."""
    marked = decisions.mark_order(make_table(column, **shares))
    assert read_marks(marked) == dict(zip(shares, marks, strict=True))


def test_rows_that_cannot_be_told_from_the_best_are_named_and_nothing_is_bold():
    marked = decisions.mark_order(make_table(clic=90, negclip=89, finetune=30))
    assert read_marks(marked) == {"clic": (0, "negclip"), "negclip": (0, "clic"), "finetune": (0, "")}
    cell = table_formats.layout_headline(marked, "pretrained")["rows"][0][2][0]
    assert (cell.css, "cannot be told from negclip" in cell.title) == ("", True)
    assert r"90.0$^{\approx}$ {" in table_formats.format_latex([marked])


@pytest.mark.parametrize(("correction", "rank"), [("none", 1), (HOLM, 0)])
def test_a_correction_is_over_all_comparisons_of_a_table(correction, rank, monkeypatch):
    """Three comparisons: one p value of 3 % does not stand Holm's."""
    monkeypatch.setattr(decisions, "p_value", lambda interval: 0.03)
    marked = decisions.mark_order(make_table(clic=90, negclip=60, finetune=30), correction)
    assert read_marks(marked)["clic"][0] == rank

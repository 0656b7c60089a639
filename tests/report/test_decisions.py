"""What can be decided: corrections by hand, p values, least differences, seeds that lack; bold, underlined and ≈."""

import numpy as np
import pytest

from compclip.config.sections import BENJAMINI_HOCHBERG, HOLM
from compclip.report import claims, decisions, statistics, table_formats, tables
from compclip.report.statistics import Spread, Variance, student_quantile
from compclip.report.tables import Column
from tests.report.test_claims import claim
from tests.report.test_crossed import make_differences, run

P = [0.01, 0.04, 0.03, 0.005]
ACCURACY = Column("b", "a")


@pytest.mark.parametrize(
    ("method", "expected"),
    [(HOLM, [0.03, 0.06, 0.06, 0.02]), (BENJAMINI_HOCHBERG, [0.02, 0.04, 0.04, 0.02]), ("none", P), (HOLM, [])],
)
def test_corrections_by_hand(method, expected):
    assert decisions.adjust(P[: len(expected)], method).tolist() == pytest.approx(expected)


def test_no_adjusted_p_value_is_above_one():
    assert decisions.adjust([0.9, 0.8], HOLM).tolist() == [1.0, 1.0]


def make_interval(rng, gap, seeds=5, items=400, seed_sd=0.02):
    gap_SI = gap + rng.normal(size=(seeds, items)) * 0.4 + seed_sd * rng.normal(size=(seeds, 1))
    return statistics.compute_interval(gap_SI.mean(axis=1).tolist(), [make_differences(gap_SI)])[0]


def test_a_p_value_is_below_five_percent_where_the_interval_excludes_zero(rng):
    intervals = [make_interval(rng, gap) for gap in np.linspace(0, 0.15, 40)]
    decided = [decisions.p_value(interval) <= 0.05 for interval in intervals]
    assert decided == [interval.sign != 0 for interval in intervals] and {True, False} == set(decided)
    moved = [decisions.p_value(interval, interval.estimate) for interval in intervals]
    assert moved == pytest.approx([1.0] * len(moved))


def test_a_least_difference_is_decided_in_about_eight_of_ten_repeats(rng):
    least = np.median([decisions.least_difference(make_interval(rng, 0.0).spread) for _ in range(100)])
    assert 0.6 < np.mean([make_interval(rng, least).sign > 0 for _ in range(300)]) < 0.9


def test_a_spread_of_more_seeds_is_that_of_more_seeds(rng):
    """By variances: noise and shift of three seeds, at thirty."""
    three = Spread(3, Variance(4.0 / 3 + 1.0 / 3, 2), (Variance(2.0 + 1.0 / 3, 99),), 1.0 / 3)
    thirty = three.with_seeds(30)
    assert (thirty.shift, thirty.noise, thirty.seed.freedom) == pytest.approx((4.0, 1.0 / 30, 29))
    assert thirty.by_unit[0].value == pytest.approx(2.0 + 1.0 / 30)


def make_open_interval(gap, shift, units):
    spread = Spread(3, Variance(shift / 3, 2), (Variance(units, 999),))
    return statistics.Interval(gap, gap - 1, gap + 1, 1000, spread)


def test_seeds_that_a_claim_would_need():
    """With 9 degrees of freedom t is 2.26: ten seeds leave 0.72 of a deviation of 1."""
    assert decisions.seeds_needed(make_open_interval(0.75, 1.0, 0.0)) == 10
    assert decisions.seeds_needed(make_open_interval(1.75, 1.0, 0.0), margin=1.0) == 10
    few_items = make_open_interval(0.02, 0.0001, 0.0004)
    assert decisions.seeds_needed(few_items) is None
    assert decisions.describe_seeds(few_items, 0.0, ACCURACY).endswith("its items leave ±3.9")
    assert decisions.describe_seeds(make_open_interval(0.75, 1.0, 0.0), 0.0, ACCURACY).startswith(
        "10 seeds would decide"
    )


def test_one_seed_tells_nothing_of_more():
    one_seed = statistics.Interval(0.5, 0.4, 0.6, 1000, Spread(1, None, (Variance(0.0004, 999),)))
    assert decisions.seeds_needed(one_seed) is None
    assert decisions.describe_seeds(one_seed, 0.0, ACCURACY) == ""


# in tables


def make_table(p_values):
    """A table of one row, whose columns have these p values over very many units."""
    cells = []
    for p in p_values:
        spread = Spread(1, None, (Variance(1.0, 10**6),))
        gap = student_quantile(np.inf, p)
        interval = statistics.Interval(gap, gap - 1.96, gap + 1.96, 10, spread)
        cells.append(tables.Statistic(0.5, None, 1, 0, interval, gap, interval.sign))
    columns = tuple(tables.Column("b", str(i)) for i in range(len(cells)))
    return tables.ResultTable(
        "vit", "scenes", columns, (tables.MethodRow("clic", (), dict(zip(columns, cells, strict=True))),)
    )


@pytest.mark.parametrize(
    ("correction", "verdicts"), [("none", [1, 1, 1, 1]), (HOLM, [1, 0, 0, 1]), (BENJAMINI_HOCHBERG, [1, 1, 1, 1])]
)
def test_marks_are_corrected_over_the_table(correction, verdicts):
    (row,) = decisions.correct_table(make_table(P), correction).rows
    assert [cell.verdict for cell in row.statistics.values()] == verdicts


def test_claims_are_corrected_over_their_inequalities():
    (inequality,), (row,) = claim("a > b on b/a").inequalities, make_table(P).rows
    intervals = [cell.difference for cell in row.statistics.values()]
    evidence = [claims.Evidence(inequality, claims.HOLDS, ACCURACY, seeds=3, interval=i) for i in intervals]
    corrected = claims.correct_evidence(evidence, HOLM)
    assert [e.verdict == claims.HOLDS for e in corrected] == [True, False, False, True]
    assert corrected[1].why == "not after Holm's correction"
    assert claims.correct_evidence(evidence, "none") == evidence


# bold and underlined where the order is decided, ≈ where it is not


def make_rows(column=ACCURACY, **shares):
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
    marked = decisions.mark_order(make_rows(column, **shares))
    assert read_marks(marked) == dict(zip(shares, marks, strict=True))


def test_rows_that_cannot_be_told_from_the_best_are_named_and_nothing_is_bold():
    marked = decisions.mark_order(make_rows(clic=90, negclip=89, finetune=30))
    assert read_marks(marked) == {"clic": (0, "negclip"), "negclip": (0, "clic"), "finetune": (0, "")}
    cell = table_formats.layout_headline(marked, "pretrained")["rows"][0][2][0]
    assert (cell.css, "cannot be told from negclip" in cell.title) == ("", True)
    assert r"90.0$^{\approx}$ {" in table_formats.format_latex([marked])


@pytest.mark.parametrize(("correction", "rank"), [("none", 1), (HOLM, 0)])
def test_a_correction_is_over_all_comparisons_of_an_order(correction, rank, monkeypatch):
    """Three comparisons: one p value of 3 % does not stand Holm's."""
    monkeypatch.setattr(decisions, "p_value", lambda interval: 0.03)
    marked = decisions.mark_order(make_rows(clic=90, negclip=60, finetune=30), correction)
    assert read_marks(marked)["clic"][0] == rank

"""The goal: worlds that are planted, from differences that a person can rank, and what is printed of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compclip.validity import goal_verdict, pair_summary, trivial_predictors
from compclip.validity.counterparts import CHOOSING, HELD_OUT, NEW_ROWS, Goal
from compclip.validity.difference_pairs import PrintedDifference
from compclip.validity.pair_summary import Estimate
from tests.validity.test_validity import pair

GOAL = Goal(0.5, "column_means")
GAPS = {"a/x": (-3, 1, 2, 9, 4), "b/x": (5, -2, 7, 1, 6), "c/x": (-1, -8, 3, -4, 2)}  # published, of five methods


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(pair_summary.summarize_pairs, "__defaults__", (100,))


def planted(way):
    """Pairs of the published gaps and what the world makes of them; each method has two models that agree."""
    pairs = []
    for column, gaps in GAPS.items():
        for method, gap in enumerate(gaps):
            models = tuple(
                PrintedDifference("P", "1", "r", f"m{method}", backbone, "", column, gap) for backbone in "BL"
            )
            pairs.append(replace(pair(f"m{method}", column, gap, way(gap)), printed=models))
    return pairs


def judged(pairs, headline="within_columns", name=CHOOSING):
    ceiling = trivial_predictors.measure_ceiling(pairs)
    (row,) = goal_verdict.make_rows({name: pairs}, headline, GOAL, ceiling)
    return row


@pytest.mark.parametrize("headline", ["within_columns", "raw"])
def test_a_perfect_world_reaches_the_goal(headline):
    """Any way that keeps the order; its share of the ceiling is 1, and the column's mean knows less."""
    row = judged(planted(lambda gap: gap**3), headline)
    assert row.headline.value == pytest.approx(1)
    assert row.verdict == goal_verdict.GoalVerdict("reached", pytest.approx(1), ())
    assert row.trivial.column_means.raw.rho.value < row.on_same_pairs.value == pytest.approx(1)


def test_a_reversed_world_misses_both_parts_of_the_goal():
    row = judged(planted(lambda gap: -gap))
    assert row.verdict.word == "missed" and row.verdict.share == pytest.approx(-1)
    assert goal_verdict.describe_verdict(row.verdict) == (
        "missed: −100 % of the ceiling, not 50 %; in points not better than the column's mean"
    )


def test_a_world_that_knows_columns_alone_is_no_better_than_their_mean():
    """Each method moves a column by its mean: every sign of the column is right, and no order within it."""
    means = {column: sum(gaps) / len(gaps) for column, gaps in GAPS.items()}
    row = judged([replace(p, ours=(means[p.column.name],)) for p in planted(float)])
    assert row.headline.value is None  # all methods are alike in each column
    assert row.verdict.word == "not judged"


@pytest.mark.parametrize(("doses", "share"), [((1, 2, 5, 6), 1), ((6, 5, 2, 1), -1), ((2, 1, 6, 5), 0.6)])
def test_a_dose_and_its_response(doses, share):
    """One weight at four values: published effects grow with it; 2 1 6 5 exchanges two neighbours, twice."""
    pairs = planted(float)[:4]
    pairs = [
        replace(p, ours=(float(dose),), printed=tuple(replace(q, difference=10.0 * k) for q in p.printed))
        for k, (p, dose) in enumerate(zip(pairs, doses, strict=True), start=1)
    ]
    row = judged(pairs, name=NEW_ROWS)
    assert row.headline.value == pytest.approx(share)  # 1 - 6 * 4 / 60
    assert row.verdict.share == pytest.approx(share)
    assert row.verdict.word == ("reached" if share >= 0.5 else "missed")


def test_the_limit_itself_is_reached_and_an_interval_over_0_is_told():
    ceiling, ours, means = Estimate(9, 0.6), Estimate(9, 0.5), Estimate(9, 0.4)
    at_the_limit = goal_verdict.judge(Estimate(9, 0.3, -0.1, 0.7), ceiling, ours, means, GOAL)
    assert goal_verdict.describe_verdict(at_the_limit) == "reached: but its interval holds 0"
    sure = goal_verdict.judge(Estimate(9, 0.3, 0.1, 0.7), ceiling, ours, means, GOAL)
    assert goal_verdict.describe_verdict(sure) == "reached"
    below = goal_verdict.judge(Estimate(9, 0.29, 0.1, 0.7), ceiling, ours, means, GOAL)
    assert goal_verdict.describe_verdict(below) == "missed: 48 % of the ceiling, not 50 %"
    no_better = goal_verdict.judge(Estimate(9, 0.6, 0.1, 0.7), ceiling, means, means, GOAL)
    assert goal_verdict.describe_verdict(no_better) == "missed: in points not better than the column's mean"


@pytest.mark.parametrize("ceiling", [Estimate(2, None), Estimate(9, 0.0), Estimate(9, -0.2)])
def test_without_a_ceiling_nothing_is_judged(ceiling):
    verdict = goal_verdict.judge(Estimate(9, 0.6), ceiling, Estimate(9, 0.6), Estimate(9, 0.4), GOAL)
    assert verdict.word == "not judged"


def test_our_number_in_points_is_over_the_pairs_of_the_columns_mean():
    """A column of one method says nothing of others, and is left out of both sides."""
    pairs = [*planted(float), pair("m0", "alone/x", -500, 500)]
    row = judged(pairs)
    assert row.summary.raw.rho.value < 1 and row.on_same_pairs.value == pytest.approx(1)
    assert row.on_same_pairs.n == row.trivial.column_means.raw.rho.n == 15


def test_parts_of_a_half_have_no_verdict_of_their_own():
    pairs = planted(float)
    rows = goal_verdict.make_rows(
        {HELD_OUT: pairs, "held out: new columns, known methods": pairs}, "raw", GOAL,
        trivial_predictors.measure_ceiling(pairs),
    )  # fmt: skip
    assert [row.is_part for row in rows] == [False, True]

"""Means, ranks and bootstrap intervals against numbers worked out by hand and a plain reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.report import statistics
from compclip.runs.items import Items

OUTCOMES = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=60).map(np.array)


def test_standard_deviation_divides_by_n_minus_one():
    mean, std = statistics.mean_std([0.4, 0.6])
    assert mean == pytest.approx(0.5)
    assert std == pytest.approx(0.02**0.5)


def test_one_seed_has_no_deviation():
    assert statistics.mean_std([0.7]) == (0.7, None)


@pytest.mark.parametrize(
    ("values", "lower", "expected"),
    [
        ([0.5, 0.7, 0.6], False, [0, 1, 2]),
        ([0.5, 0.7, 0.6], True, [1, 0, 2]),
        ([0.7, 0.7, 0.6, 0.5], False, [1, 1, 2, 0]),
        ([0.7001, 0.7004, 0.6], False, [1, 1, 2]),
        ([None, 0.7, 0.6], False, [0, 1, 2]),
        ([0.7, None], False, [0, 0]),
    ],
)
def test_ranks(values, lower, expected):
    assert statistics.ranks(values, lower) == expected


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.randoms())
def test_ranks_follow_their_values_through_any_order(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    ranks = statistics.ranks(values)
    assert statistics.ranks([values[i] for i in order]) == [ranks[i] for i in order]


def test_average_over_seeds_keeps_only_shared_ids():
    a = Items(("x", "y", "z"), np.array([1.0, 0.0, 1.0]))
    b = Items(("z", "x"), np.array([0.0, 1.0]))
    found = statistics.average([a, b])
    assert found.ids == ("x", "z")
    assert found.values.tolist() == [1.0, 0.5]


def test_pairs_go_by_id_not_by_place():
    ours, theirs = Items(("a", "b"), np.array([1.0, 0.0])), Items(("b", "a", "c"), np.array([1.0, 0.0, 1.0]))
    assert statistics.paired(ours, theirs).values.tolist() == [1.0, -1.0]


def items(values_I):
    """Outcomes of records that have nothing in common."""
    return Items(tuple(f"r{i}" for i in range(len(values_I))), np.asarray(values_I))


def plain(values_I, rng, draws):
    """The bootstrap by its definition."""
    return np.array([rng.choice(values_I, len(values_I)).mean() for _ in range(draws)])


def test_bootstrap_by_counts_agrees_with_the_definition(rng):
    values_I = np.repeat([-1.0, 0.0, 0.5, 1.0], [10, 40, 25, 25])
    fast, slow = statistics.bootstrap(items(values_I), rng), plain(values_I, rng, 4000)
    assert fast.mean() == pytest.approx(slow.mean(), abs=0.005)
    assert np.quantile(fast, [0.025, 0.975]) == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=0.012)


def test_bootstrap_of_many_different_values_agrees_with_the_definition(rng):
    values_I = rng.normal(size=200)
    assert len(np.unique(values_I)) > statistics.FEW
    fast, slow = statistics.bootstrap(items(values_I), rng, 2000), plain(values_I, rng, 2000)
    assert np.quantile(fast, [0.025, 0.975]) == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=0.02)


def test_bootstrap_deviation_is_the_standard_error(rng):
    values_I = np.repeat([0.0, 1.0], 50)
    assert statistics.bootstrap(items(values_I), rng).std() == pytest.approx(0.05, abs=0.002)


@pytest.mark.parametrize("same", [True, False], ids=["few", "many"])
def test_captions_of_a_picture_are_drawn_together(rng, same):
    """Five captions of one picture that say the same are one outcome: the deviation of 40 pictures, not of 200 items."""
    value_G = np.repeat([0.0, 1.0], 20) if same else rng.normal(size=200)
    pictures = len(value_G)
    captions = Items(tuple(f"p#{g}.jpg#{i}" for g in range(pictures) for i in range(5)), np.repeat(value_G, 5))
    draws_B = statistics.bootstrap(captions, rng, 4000)
    assert draws_B.std() == pytest.approx(value_G.std() / np.sqrt(pictures), rel=0.06)


def test_pictures_weigh_by_their_captions(rng):
    """Two pictures with one and three captions: 0 or 1 alone, or three quarters."""
    captions = Items(("a#0", "b#0", "b#1", "b#2"), np.array([0.0, 1.0, 1.0, 1.0]))
    assert set(statistics.bootstrap(captions, rng, 200)) == {0.0, 0.75, 1.0}


def test_records_of_one_unit_are_drawn_together_and_keep_it(rng):
    """Whatever their ids; through the mean over seeds and the difference to another model, also on fewer items."""
    ours = Items(("0", "1", "2", "3"), np.array([0.0, 1.0, 1.0, 1.0]), units=(7, 2, 2, 2))
    theirs = Items(("3", "2", "1"), np.zeros(3))
    gap = statistics.paired(statistics.average([ours, ours]), theirs)
    assert (gap.ids, gap.units) == (("1", "2", "3"), (2, 2, 2))
    assert set(statistics.bootstrap(ours, rng, 200)) == {0.0, 0.75, 1.0}


@given(OUTCOMES)
def test_draws_stay_within_the_values_and_around_their_mean(values_I):
    draws_B = statistics.bootstrap(items(values_I), np.random.default_rng(1), 500)
    assert values_I.min() - 1e-12 <= draws_B.min() <= draws_B.max() <= values_I.max() + 1e-12
    assert abs(draws_B.mean() - values_I.mean()) <= 5 * values_I.std() / np.sqrt(len(values_I) * 500) + 1e-9


@given(OUTCOMES)
def test_the_order_of_items_changes_nothing(values_I):
    one = statistics.bootstrap(items(values_I), np.random.default_rng(2), 200)
    other = statistics.bootstrap(items(values_I[::-1]), np.random.default_rng(2), 200)
    assert np.array_equal(one, other)


@given(OUTCOMES)
def test_the_opposite_difference_has_the_opposite_interval(values_I):
    one = statistics.interval(0.0, statistics.bootstrap(items(values_I), np.random.default_rng(3)), 1)
    other = statistics.interval(0.0, statistics.bootstrap(items(-values_I), np.random.default_rng(4)), 1)
    assert one.low == pytest.approx(-other.high, abs=0.15)
    assert one.low <= one.high


@pytest.mark.parametrize(("low", "high", "sign"), [(0.1, 0.2, 1), (-0.2, -0.1, -1), (-0.1, 0.1, 0), (0.0, 0.1, 0)])
def test_an_interval_that_touches_zero_decides_nothing(low, high, sign):
    assert statistics.Interval(0.1, low, high, 10).sign == sign


def test_the_same_names_give_the_same_draws():
    one, other = statistics.generator("a", "b"), statistics.generator("a", "b")
    assert one.random() == other.random() != statistics.generator("ab").random()


def test_coverage_of_the_95_percent_interval(rng):
    """Of 300 samples of 100 items from a known distribution, about 95 % of the intervals hold its mean."""
    held = 0
    for _ in range(300):
        sample = rng.choice([-1.0, 0.0, 1.0], 100, p=[0.1, 0.5, 0.4])
        found = statistics.interval(sample.mean(), statistics.bootstrap(items(sample), rng, 1000), 100)
        held += found.low <= 0.3 <= found.high
    assert 0.91 <= held / 300 <= 0.99

"""Rank correlations and their bootstrap: against scipy, against samples written out, and what must hold of any."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from compclip.validity import pair_summary
from compclip.validity.pair_summary import RHO, TAU, WEIGHT

VALUES = st.integers(-4, 4).map(float)  # small, so that there are ties
PAIRS = st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=12)
MONOTONE = (lambda v: 3 * v + 1, lambda v: v**3, math.exp, math.atan)


def sums(x, y, weight=None):
    weight = np.ones(len(x)) if weight is None else np.asarray(weight, dtype=float)
    return pair_summary.weighted_sums(np.asarray(x, float)[None], np.asarray(y, float)[None], weight[None])


def both(x, y, weight=None):
    pair_sums = sums(x, y, weight)
    return pair_summary.correlation_ratio(pair_sums[:, RHO])[0], pair_summary.correlation_ratio(pair_sums[:, TAU])[0]


def is_same_number(a, b):
    return (math.isnan(a) and math.isnan(b)) or a == pytest.approx(b, abs=1e-9)


def reference(x, y):
    if len(set(x)) < 2 or len(set(y)) < 2:
        return math.nan, math.nan
    return stats.spearmanr(x, y).statistic, stats.kendalltau(x, y).statistic


def test_by_hand():
    """Of four items two neighbours are exchanged: 1 - 6·2/60, and 5 of 6 comparisons agree."""
    rho, tau = both([1, 2, 3, 4], [1, 3, 2, 4])
    assert rho == pytest.approx(0.8)
    assert tau == pytest.approx(4 / 6)


@given(PAIRS)
def test_as_scipy_has_them(pairs):
    """Ties included; nothing where one side is constant."""
    x, y = zip(*pairs, strict=True)
    assert all(map(is_same_number, both(x, y), reference(x, y)))


@given(PAIRS, st.data())
def test_a_weight_is_that_many_copies(pairs, data):
    """A draw of a bootstrap need not be written out."""
    weight = data.draw(st.lists(st.integers(0, 3), min_size=len(pairs), max_size=len(pairs)))
    copies = [pair for pair, n in zip(pairs, weight, strict=True) for _ in range(n)]
    x, y = zip(*pairs, strict=True)
    expected = reference(*zip(*copies, strict=True)) if len(copies) > 1 else (math.nan, math.nan)
    assert all(map(is_same_number, both(x, y, weight), expected))


@given(st.lists(VALUES, min_size=2, max_size=9, unique=True), st.sampled_from(MONOTONE))
def test_order_is_all_that_counts(x, way):
    """One order is 1, the opposite is -1, whatever the distances."""
    y = [way(v) for v in x]
    assert both(x, y) == pytest.approx((1, 1))
    assert both(x, [-v for v in y]) == pytest.approx((-1, -1))


@given(PAIRS, st.sampled_from(MONOTONE))
def test_monotone_maps_change_nothing(pairs, way):
    """Of either side."""
    x, y = zip(*pairs, strict=True)
    mapped = both([way(v) for v in x], y)
    assert all(map(is_same_number, both(x, y), mapped))
    assert all(map(is_same_number, both(y, x), both(x, y)))


@given(PAIRS, st.integers(0, 12))
def test_a_missing_value_has_no_part(pairs, position):
    """On either side, whatever stands on the other."""
    x, y = zip(*pairs, strict=True)
    for a, b in ((math.nan, 1.0), (2.0, math.nan)):
        extended = [list(x), list(y)]
        extended[0].insert(position, a)
        extended[1].insert(position, b)
        assert sums(*extended) == pytest.approx(sums(x, y))


@given(st.lists(PAIRS, min_size=1, max_size=4))
def test_within_columns_against_ranks_written_out(columns):
    """Pearson's correlation of ranks about their mean, over how many there are; tau's sums over comparisons."""
    column_sums = np.stack([sums(*zip(*pairs, strict=True)) for pairs in columns], axis=1)
    ranks = [[(stats.rankdata(v) - (len(v) + 1) / 2) / len(v) for v in zip(*p, strict=True)] for p in columns]
    x, y = (np.concatenate([r[side] for r in ranks]) for side in (0, 1))
    square = math.sqrt((x @ x) * (y @ y))
    assert is_same_number(
        pair_summary.correlate_within_columns(column_sums, RHO)[0], x @ y / square if square > 1e-12 else math.nan
    )
    signs = [[(np.sign(a - c), np.sign(b - d)) for a, b in p for c, d in p] for p in columns]
    s, t = np.array([pair for column_signs in signs for pair in column_signs]).T
    square = math.sqrt((s @ s) * (t @ t))
    assert is_same_number(
        pair_summary.correlate_within_columns(column_sums, TAU)[0], s @ t / square if square > 1e-12 else math.nan
    )
    assert column_sums[0, :, WEIGHT].sum() == sum(map(len, columns))


def test_all_draws_at_once_are_each_by_itself(monkeypatch):
    """Also when they do not fit into memory together."""
    rng = np.random.default_rng(0)
    x_BN, y_BN, w_BN = rng.normal(size=(7, 5)), rng.normal(size=(1, 5)), rng.integers(0, 3, (7, 5))
    single = np.concatenate([pair_summary.weighted_sums(x_BN[i : i + 1], y_BN, w_BN[i : i + 1]) for i in range(7)])
    assert pair_summary.weighted_sums(x_BN, y_BN, w_BN) == pytest.approx(single)
    monkeypatch.setattr(pair_summary, "CELLS", 50)
    assert pair_summary.weighted_sums(x_BN, y_BN, w_BN) == pytest.approx(single)


def test_seeds_are_drawn_within_their_method():
    """The first is the mean of all; draws hold means of 3 values with replacement; one seed has no spread."""
    values = [np.array([[0.0, 1.0], [3.0, np.nan], [6.0, np.nan]]), np.array([[5.0, 5.0]])]
    found_BMC = pair_summary.resample_seed_means(np.random.default_rng(0), 500, values)
    assert found_BMC.shape == (501, 2, 2)
    assert found_BMC[0].tolist() == [[3.0, 1.0], [5.0, 5.0]]
    assert set(found_BMC[:, 0, 0]) == {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
    assert set(found_BMC[~np.isnan(found_BMC[:, 0, 1]), 0, 1]) == {1.0}  # draws without that seed have none
    assert 0.2 < np.isnan(found_BMC[1:, 0, 1]).mean() < 0.4  # (2/3)³
    assert set(found_BMC[:, 1].ravel()) == {5.0}


@given(st.integers(1, 9), st.integers(1, 20))
def test_every_draw_has_as_many_clusters_as_there_are(clusters, draws):
    counts = pair_summary.resample_counts(np.random.default_rng(1), draws, clusters)
    assert counts.shape == (1 + draws, clusters)
    assert (counts[0] == 1).all()
    assert (counts.sum(axis=1) == clusters).all()


def test_an_interval_needs_pairs_and_draws():
    """No number of three pairs; no interval where half of the draws have none."""
    assert pair_summary.estimate_interval(3, np.array([0.5, 0.1, 0.9])).value is None
    assert pair_summary.estimate_interval(4, np.array([np.nan, 0.1, 0.9])).value is None
    half = pair_summary.estimate_interval(4, np.array([0.5, np.nan, 0.9]))
    assert (half.value, half.low, half.high) == (0.5, None, None)
    estimate = pair_summary.estimate_interval(4, np.array([0.5, *np.linspace(0, 1, 41), np.nan]))
    assert (estimate.value, estimate.low, estimate.high) == (0.5, pytest.approx(0.025), pytest.approx(0.975))


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    """Kendall's tau of 25 pairs from a normal distribution whose tau is 2/π·asin(0.6)."""
    rng, truth, hits = np.random.default_rng(3), 2 / math.pi * math.asin(0.6), 0
    for _ in range(200):
        x, noise = rng.normal(size=(2, 25))
        weight = pair_summary.resample_counts(rng, 300, 25)
        draw_sums = pair_summary.weighted_sums(np.broadcast_to(x, weight.shape), (0.6 * x + 0.8 * noise)[None], weight)
        ends = pair_summary.estimate_interval(25, pair_summary.correlation_ratio(draw_sums[:, TAU]))
        hits += ends.low <= truth <= ends.high
    assert 0.88 < hits / 200 < 0.99

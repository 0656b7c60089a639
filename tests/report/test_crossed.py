"""Intervals over seeds and items: against plain references, how often they hold the truth, and how columns reach items.

S seeds, I items.
"""

import dataclasses
from math import erf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from compclip.report import statistics, tables
from compclip.report.statistics import ItemDifferences, Spread, Variance, student_quantile
from compclip.report.tables import Column
from compclip.runs.item_outcomes import COMPOSITION, Items
from compclip.runs.result_files import Result
from tests.report import made_page

A, B = Column("b", "a"), Column("b", "b")


def make_differences(gap_SI, weight=1.0, ids=None, benchmark="b"):
    gap_SI = np.asarray(gap_SI, dtype=float)
    ids = ids or tuple(map(str, range(gap_SI.shape[1])))
    return ItemDifferences(benchmark, weight, ids, gap_SI, statistics.item_units(Items(ids, gap_SI[0])))


def squares(gap_SI):
    """The two-way layout's mean squares of seeds, items and noise, by loops."""
    seeds, items = len(gap_SI), len(gap_SI[0])
    grand_mean = sum(map(sum, gap_SI)) / (seeds * items)
    row = [sum(gap_SI[s]) / items for s in range(seeds)]
    column = [sum(gap_SI[s][i] for s in range(seeds)) / seeds for i in range(items)]
    residual = sum((gap_SI[s][i] - row[s] - column[i] + grand_mean) ** 2 for s in range(seeds) for i in range(items))
    return (
        items * sum((r - grand_mean) ** 2 for r in row) / (seeds - 1),
        seeds * sum((c - grand_mean) ** 2 for c in column) / (items - 1),
        residual / ((seeds - 1) * (items - 1)),
    )


# against references


@pytest.mark.parametrize("freedom", [1, 1.3, 2, 3.4, 11, 200, 25_000, np.inf])
@pytest.mark.parametrize("level", [0.4, 0.05, 1e-4, 1e-8])
def test_student_s_quantile_is_scipy_s(freedom, level):
    expected = scipy_stats.t.isf(level / 2, freedom) if freedom < np.inf else scipy_stats.norm.isf(level / 2)
    assert student_quantile(freedom, level) == pytest.approx(expected, rel=1e-9)


@given(st.integers(2, 5), st.integers(2, 9), st.integers(0, 10_000))
def test_half_the_width_is_banerjee_s_of_the_two_way_layout(seeds, items, number):
    rng = np.random.default_rng(number)
    gap_SI = rng.normal(size=(seeds, items)) + 2 * rng.normal(size=(seeds, 1))
    of_seeds, of_items, noise = (m / (seeds * items) for m in squares(gap_SI.tolist()))
    t_seeds, t_items = student_quantile(seeds - 1), student_quantile(items - 1)
    shift = max((of_seeds - 0.1 * noise) * t_seeds**2, (0.9 * t_items) ** 2 * noise)
    half = sqrt(shift + max(of_items - noise, 0) * t_items**2)
    interval, over = statistics.compute_interval(gap_SI.mean(axis=1).tolist(), [make_differences(gap_SI)])
    assert over == statistics.BOTH and interval.items == items
    assert (interval.low, interval.high) == pytest.approx((gap_SI.mean() - half, gap_SI.mean() + half))


def test_the_variance_over_pictures_is_the_bootstrap_s(rng):
    """Three captions a picture, right or wrong together: one seed, so that the pictures are all that varies."""
    right = np.repeat(rng.choice([-1.0, 0.0, 1.0], 200), 3) + rng.choice([0.0, 1.0], 600)
    ids = tuple(f"p{i // 3}#{i % 3}" for i in range(600))
    picked_BG = rng.integers(0, 200, (20_000, 200))  # a bootstrap of pictures, by its definition
    bootstrap_means = right.reshape(200, 3).mean(axis=1)[picked_BG].mean(axis=1)
    interval, over = statistics.compute_interval([right.mean()], [make_differences([right], ids=ids)])
    assert over == statistics.ITEMS_ALONE
    assert (interval.high - interval.low) / 2 == pytest.approx(student_quantile(199) * bootstrap_means.std(), rel=0.02)
    unclustered, _ = statistics.compute_interval([right.mean()], [make_differences([right])])
    assert unclustered.high < interval.high - 0.01


def test_metrics_of_the_same_records_are_drawn_together():
    """Three equal metrics tell no more than one; those of three benchmarks do."""
    gap_SI = np.array([[1.0, 0, 0, 1, 1, 0, 1, 1], [1, 0, 1, 1, 1, 0, 0, 1]])
    mean_S = gap_SI.mean(axis=1).tolist()
    single_metric, _ = statistics.compute_interval(mean_S, [make_differences(gap_SI)])
    equal_metrics, _ = statistics.compute_interval(mean_S, [make_differences(gap_SI, 1 / 3)] * 3)
    assert (equal_metrics.low, equal_metrics.high) == pytest.approx((single_metric.low, single_metric.high))
    one_benchmark, _ = statistics.compute_interval([0.625], [make_differences(gap_SI[:1])])
    three_benchmarks, _ = statistics.compute_interval(
        [0.625], [make_differences(gap_SI[:1], 1 / 3, benchmark=b) for b in "xyz"]
    )
    factor = student_quantile(21) / student_quantile(7) / sqrt(3)
    assert three_benchmarks.high - 0.625 == pytest.approx((one_benchmark.high - 0.625) * factor)


def test_benchmarks_of_the_same_pictures_are_one_source():
    """Two that show the same pictures, in part, tell no more than one; names are pictures of one benchmark alone."""
    gap_SI = np.array([[1.0, 0, 0, 1, 1, 0, 1, 1], [1, 0, 1, 1, 1, 0, 0, 1]])
    mean_S, pictures = gap_SI.mean(axis=1).tolist(), tuple(range(8))
    alone, left, right = (
        ItemDifferences(name, weight, tuple(map(str, pictures)), gap_SI, pictures)
        for name, weight in (("x", 1), ("x", 0.5), ("y", 0.5))
    )
    single, joined = (statistics.compute_interval(mean_S, differences)[0] for differences in ([alone], [left, right]))
    assert (single.low, single.high) == pytest.approx((joined.low, joined.high))
    names = [dataclasses.replace(d, units=tuple(map(str, pictures))) for d in (left, right)]
    assert statistics.compute_interval(mean_S, names)[0].high < joined.high


def test_a_chain_of_shared_pictures_is_one_source():
    gap_SI = np.zeros((1, 2))
    chain = [ItemDifferences(n, 1.0, ("0", "1"), gap_SI, u) for n, u in {"a": (1, 2), "b": (5, 6), "c": (2, 3)}.items()]
    assert [[d.benchmark for d in group] for group in statistics.group_by_source(chain)] == [["a", "c"], ["b"]]


def test_a_file_without_units_takes_those_of_the_other_model(rng):
    ours, theirs = Items(("0", "1"), np.ones(2)), Items(("0", "1"), np.zeros(2), units=(5, 5))
    assert statistics.subtract_items(ours, theirs).units == (5, 5)
    assert statistics.align_items([ours, theirs])[0].units == (5, 5)


def test_without_items_the_seeds_stand_alone():
    """Mean 2, standard deviation 1: half the width is 4.303 / sqrt(3)."""
    interval, over = statistics.compute_interval([1.0, 2.0, 3.0], None)
    assert over == statistics.SEEDS_ALONE and interval.items == 0
    assert (interval.low, interval.high) == pytest.approx((2 - 2.4842, 2 + 2.4842), abs=1e-4)
    assert statistics.compute_interval([1.0], None) == (None, statistics.NEITHER)


def test_seeds_and_items_that_do_not_vary_leave_a_point():
    interval, _ = statistics.compute_interval([0.5, 0.5, 0.5], [make_differences(np.full((3, 4), 0.5))])
    assert (interval.low, interval.high) == (0.5, 0.5)


# means, signs and pairs of items by hand


def test_standard_deviation_divides_by_n_minus_one():
    assert statistics.mean_std([0.4, 0.6]) == pytest.approx((0.5, 0.02**0.5))
    assert statistics.mean_std([0.7]) == (0.7, None)


def test_pairs_go_by_id_not_by_place():
    ours, theirs = Items(("a", "b"), np.array([1.0, 0.0])), Items(("b", "a", "c"), np.array([1.0, 0.0, 1.0]))
    assert statistics.subtract_items(ours, theirs).values.tolist() == [1.0, -1.0]


def test_records_of_one_unit_keep_it():
    """Whatever their ids; through the seeds and the difference to another model, also on fewer items."""
    ours = Items(("0", "1", "2", "3"), np.array([0.0, 1.0, 1.0, 1.0]), units=(7, 2, 2, 2))
    theirs = Items(("3", "2", "1"), np.zeros(3))
    shared, gap_SI = statistics.align_items([statistics.subtract_items(ours, theirs)] * 2)
    assert (shared.ids, statistics.item_units(shared)) == (("1", "2", "3"), (2, 2, 2))
    assert gap_SI.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_captions_of_a_picture_are_one_unit():
    captions = Items(("a.jpg#0", "b#1.jpg#0", "b#1.jpg#1"), np.zeros(3))
    assert statistics.item_units(captions) == ("a.jpg", "b#1.jpg", "b#1.jpg")
    assert statistics.item_units(Items(("a#0", "b"), np.zeros(2))) == ("a#0", "b")


@pytest.mark.parametrize(("low", "high", "sign"), [(0.1, 0.2, 1), (-0.2, -0.1, -1), (-0.1, 0.1, 0), (0.0, 0.1, 0)])
def test_an_interval_that_touches_zero_decides_nothing(low, high, sign):
    assert statistics.Interval(0.1, low, high, 10).sign == sign


def test_the_same_names_give_the_same_draws():
    first_generator, second_generator = statistics.named_generator("a", "b"), statistics.named_generator("a", "b")
    assert first_generator.random() == second_generator.random() != statistics.named_generator("ab").random()


# how often they hold the truth


def chance(mean, variance):
    """How often a normal variable of that mean, and of that variance and 1 more, is above 0."""
    return 0.5 * (1 + erf(mean / sqrt(1 + variance) / sqrt(2)))


def outcomes(rng, mean, shared_I, seeds, seed_sd, item_sd, noise_sd):
    """Right or wrong, shape S x I, and the means of the seeds' models: items shared with the other method, own, noise."""
    shift_S1 = mean + seed_sd * rng.normal(size=(seeds, 1))
    noise_SI = sqrt(1 + noise_sd**2) * rng.normal(size=(seeds, len(shared_I)))
    return shift_S1 + shared_I + item_sd * rng.normal(size=len(shared_I)) + noise_SI > 0, shift_S1[:, 0]


def coverage(rng, seeds, seed_sd, item_sd, noise_sd, samples=500, items=400):
    """How many intervals hold the truth; with one seed it is that of the two models at hand, else of the two methods."""
    hits = 0
    for _ in range(samples):
        shared_I = rng.normal(size=items)
        ours, theirs = (outcomes(rng, mean, shared_I, seeds, seed_sd, item_sd, noise_sd) for mean in (0.3, 0.0))
        fixed = 1 + item_sd**2 + noise_sd**2
        if seeds == 1:
            truth = chance(ours[1][0], fixed) - chance(theirs[1][0], fixed)
        else:
            truth = chance(0.3, fixed + seed_sd**2) - chance(0.0, fixed + seed_sd**2)
        gap_SI = ours[0].astype(float) - theirs[0]
        interval, _ = statistics.compute_interval(gap_SI.mean(axis=1).tolist(), [make_differences(gap_SI)])
        hits += interval.low <= truth <= interval.high
    return hits / samples


@pytest.mark.parametrize(
    ("seeds", "seed_sd", "item_sd", "noise_sd"),
    [(5, 0.0, 1.0, 0.0), (5, 0.05, 1.0, 0.5), (5, 0.15, 0.5, 0.0), (5, 0.5, 0.5, 1.0), (3, 0.15, 1.0, 0.0),
     (3, 0.5, 0.5, 0.5), (2, 0.0, 1.0, 0.0), (1, 0.0, 1.0, 0.0), (1, 0.5, 1.0, 0.0)],
)  # fmt: skip
def test_a_95_percent_interval_holds_the_truth_94_to_98_times_in_a_hundred(rng, seeds, seed_sd, item_sd, noise_sd):
    """Crossed seeds and items, also with seeds that do not vary, and one seed; two seeds may hold more (500 draws)."""
    assert 0.93 <= coverage(rng, seeds, seed_sd, item_sd, noise_sd) <= (0.99 if seeds > 2 else 1)


def integrate_coverage(seeds, noise, shift, steps=200):
    """How often an interval holds the truth, over all estimates of the seeds' variance; units vary by 1, known."""
    level_Q = (np.arange(steps) + 0.5) / steps
    estimate_Q = (shift + noise) * scipy_stats.chi2.ppf(level_Q, seeds - 1) / (seeds - 1)
    units = (Variance(1.0, np.inf),)
    half_Q = [Spread(seeds, Variance(e, seeds - 1), units, noise).half_width() for e in estimate_Q]
    return np.mean(1 - 2 * scipy_stats.norm.sf(np.array(half_Q) / sqrt(1 + shift)))


@pytest.mark.parametrize(("seeds", "most"), [(3, 0.98), (4, 0.975), (5, 0.97), (10, 0.96)])
def test_by_integration_intervals_hold_the_truth_94_to_98_times_in_a_hundred(seeds, most):
    """Whatever share of the units' variance is noise, and however much seeds differ."""
    for noise in (0.05, 0.2, 0.5, 0.8, 1.0):
        for shift in (0, 0.1, 0.35, 1, 2, 4, 10, 50):
            assert 0.94 <= integrate_coverage(seeds, noise, shift) <= most, (noise, shift)


# how columns reach items


def run(method, seed, means=None, **bits):
    """A run of one benchmark with these outcomes of its metrics."""
    items = {m: Items(tuple(map(str, range(len(b)))), np.array(list(map(float, b)))) for m, b in bits.items()}
    numbers = {m: float(i.values.mean()) for m, i in items.items()}
    for name, below in (means or {}).items():
        numbers[name] = float(np.mean([numbers[m] for m in below]))
    return made_page.make_finished(
        method, seed, {"b": Result("b", "b", COMPOSITION, numbers, items=items, means=means or {})}
    )


def pairs(means=None):
    ours = [run("clic", 0, means, a="1110", b="10"), run("clic", 1, means, a="1100", b="11")]
    return list(zip(ours, [run("negclip", s, means, a="1000", b="01") for s in (0, 1)], strict=True))


MEANS = {"mean": ["a", "b"], "again": ["mean", "a"]}


@pytest.mark.parametrize(
    ("column", "weights"),
    [(A, [1]), (Column("b", "mean"), [1 / 2, 1 / 2]), (Column("b", "again"), [1 / 4, 1 / 4, 1 / 2]),
     (Column("summary", "Comp", (Column("b", "mean"), A)), [1 / 4, 1 / 4, 1 / 2])],
)  # fmt: skip
def test_a_mean_s_weighted_metrics_give_its_difference(column, weights):
    """A benchmark's own means, means of means, and the report's."""
    differences = tables.collect_item_differences(column, pairs(MEANS))
    assert [p.weight for p in differences] == weights
    total_S = sum(p.weight * p.gap_SI.mean(axis=1) for p in differences)
    expected_S = [tables.column_value(a, column) - tables.column_value(b, column) for a, b in pairs(MEANS)]
    assert total_S.tolist() == pytest.approx(expected_S)


def test_a_mean_with_a_metric_without_items_has_none():
    column = Column("summary", "Comp", (A, Column("b", "nothing")))
    assert tables.collect_item_differences(column, pairs()) is None


def test_captions_of_one_picture_tell_nothing_of_pictures():
    ids = tuple(f"p#{i}" for i in range(4))
    both = [run(m, 0, a="1010") for m in ("clic", "negclip")]
    for run_of_method in both:
        run_of_method.results["b"].items["a"] = Items(ids, run_of_method.results["b"].items["a"].values)
    assert tables.collect_item_differences(A, [tuple(both)]) is None


def test_items_that_not_all_seeds_have_are_left_out():
    run_pairs = pairs()
    short = run("clic", 1, a="111")
    (only,) = tables.collect_item_differences(A, [run_pairs[0], (short, run_pairs[1][1])])
    assert only.ids == ("0", "1", "2")
    assert only.gap_SI.tolist() == [[0, 1, 1], [0, 1, 1]]

"""The prior of variances over seeds: against Smyth's equations by loops, by hand, in tables, and how often it is right.

M rows, S seeds.
"""

from math import exp, lgamma, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special

from compclip.report import claims, statistics, table_formats, tables
from compclip.report.statistics import ColumnPriors, SeedPrior, Variance
from compclip.report.tables import Column
from perf.truth import coverage
from tests.report.made_page import make_run_of_right

SWAP = Column("b", "swap")


def smyth(values, freedom):
    """d0 and s0^2 of Smyth (2004), Sec. 6.2, each equation as printed, its inverse by bisection."""
    e = [log(s2) - special.digamma(freedom / 2) + log(freedom / 2) for s2 in values]
    mean = sum(e) / len(e)
    target = sum((x - mean) ** 2 for x in e) / (len(e) - 1) - special.polygamma(1, freedom / 2)
    if target <= 0:
        return np.inf, sum(values) / len(values)
    d0 = optimize.brentq(lambda d: special.polygamma(1, d / 2) - target, 1e-3, 1e9, xtol=1e-12, rtol=1e-12)
    return d0, exp(mean + special.digamma(d0 / 2) - log(d0 / 2))


def tail_of_f(x, d, d0):
    """How often a variance of d degrees of freedom is x times its prior's or more: the density of F, integrated."""
    beta = exp(lgamma(d / 2) + lgamma(d0 / 2) - lgamma((d + d0) / 2))
    t = np.linspace(0, d0 / (d0 + d * x), 400_001)[1:]  # the tail's share of the beta density of d0 / (d0 + d x)
    return np.trapezoid(t ** (d0 / 2 - 1) * (1 - t) ** (d / 2 - 1), t) / beta


@given(st.integers(3, 40), st.integers(1, 4), st.integers(0, 10_000))
def test_the_prior_is_smyth_s_of_the_logarithms(rows, freedom, number):
    rng = np.random.default_rng(number)
    values = [float(v) for v in rng.chisquare(freedom, rows) * rng.uniform(0.5, 4, rows)]
    floored = [max(v, statistics.LEAST_SHARE * sum(values) / rows) for v in values]
    d0, s0 = smyth(floored, freedom)
    prior = statistics.estimate_prior([Variance(v, freedom) for v in values])
    expected = 0.45 * min(d0, freedom * (rows - 2))
    mean = sum(values) / rows
    assert (prior.freedom, prior.variance) == pytest.approx((expected, mean if d0 == np.inf else s0), rel=1e-6)


def test_a_moderated_variance_by_hand():
    """Four degrees of freedom of the prior at 2 and one of the row at 7: (4 x 2 + 7) / 5 on five."""
    assert SeedPrior(2.0, 4.0, 100).moderate(Variance(7.0, 1)) == Variance(3.0, 5.0)


def test_a_wild_row_has_little_of_the_prior():
    """Of five rows none is a hundred times as large by luck more often than the tail of F says."""
    moderated = SeedPrior(2.0, 4.0, 5).moderate(Variance(200.0, 2))
    share = 5 * tail_of_f(100.0, 2, 4.0)
    freedom = 4.0 * share
    assert share < 0.01
    assert moderated.freedom == pytest.approx(2 + freedom, rel=1e-4)
    assert moderated.value == pytest.approx((2 * 200 + freedom * 2) / (2 + freedom), rel=1e-4)


ALIKE = [{0: 0.0, 1: 1.0}, {0: 1.0, 1: 0.0}, {0: 3.0, 1: 4.0}, {0: 0.0, 1: -1.0}]


def test_rows_that_vary_alike_have_the_mean_of_their_variances():
    """Four rows of one degree of freedom: 0.45 of two rows'."""
    prior = statistics.estimate_column_priors(ALIKE).row
    assert (prior.variance, prior.freedom, prior.rows) == pytest.approx((0.5, 0.45 * 2, 4))


@pytest.mark.parametrize(
    "rows",
    [[], ALIKE[:1], ALIKE[:2], [{0: 0.5, 1: 0.5}] * 3],
    ids=["no row", "one row", "two rows", "nothing varies"],
)
def test_there_is_no_prior(rows):
    assert statistics.estimate_column_priors(rows) == ColumnPriors()


def test_what_a_seed_does_to_all_rows_is_not_in_the_prior_of_pairs(rng):
    score_MS = rng.normal(size=(5, 3))
    shifted_MS = score_MS + [0, 10, -10]
    plain, shifted = (
        statistics.estimate_column_priors([dict(enumerate(row)) for row in m]) for m in (score_MS, shifted_MS)
    )
    assert shifted.pair.variance == pytest.approx(plain.pair.variance)
    assert shifted.row.variance > 10 * plain.row.variance


def test_rows_without_common_seeds_have_no_prior_of_pairs():
    rows = [{0: 0.0, 1: 1.0}, {2: 0.0, 3: 1.0}, {4: 0.0, 5: 1.5}]
    priors = statistics.estimate_column_priors(rows)
    assert priors.row and priors.pair is None


def test_two_equal_seeds_are_no_end_of_the_prior():
    """A variance of 0 has no logarithm: it counts as a small one."""
    prior = statistics.estimate_column_priors([*ALIKE, {0: 2.0, 1: 2.0}]).row
    assert prior.freedom > 0 and 0 < prior.variance < 0.5


def test_more_seeds_keep_the_prior():
    spread = statistics.estimate_spread([0.0, 2.0], None, SeedPrior(2.0, 4.0, 100))
    assert (spread.seed, spread.prior_freedom) == (Variance(1.0, 5.0), 4.0)
    assert spread.with_seeds(10).seed == Variance(0.2, 13.0)


# in tables


def make_table(**right):
    """A table of methods whose seeds have so many of 400 items right, and the pretrained model with 200."""
    runs = [make_run_of_right("pretrained", 0, 200)]
    for method, counts in right.items():
        runs += [make_run_of_right(method, seed, count) for seed, count in enumerate(counts)]
    (table,) = tables.build_tables(runs, [SWAP])
    return table


TWO_SEEDS = {"negclip": (260, 264), "clic": (250, 254), "finetune": (214, 210)}


def test_two_seeds_decide_where_three_rows_were_trained():
    """Student's factor of one degree of freedom leaves the same two seeds open."""
    open_pair = (["negclip", "finetune"], [0], "2 of 3 seeds")
    for methods, verdicts, why in ((["negclip", "clic", "finetune"], [1, 1], ""), open_pair):
        table = make_table(**{method: TWO_SEEDS[method] for method in methods})
        (contrast,) = tables.build_contrasts([table], "finetune")
        rows = {row.method: row.statistics[SWAP] for row in contrast.rows if row.method != "pretrained"}
        assert [statistic.verdict for statistic in rows.values()] == verdicts
        runs = table.runs_by_seed
        evidence = claims.judge_inequality(claims.parse_inequality("negclip > finetune on b/swap", "here"), runs, SWAP)
        assert evidence.interval == rows["negclip"].difference
        assert (evidence.verdict == claims.HOLDS, evidence.why) == (not why, why)


def test_a_table_says_its_prior():
    table = make_table(**TWO_SEEDS)
    assert "of 0.45 degrees of freedom" in table_formats.layout_differences(table)["prior"]
    assert table_formats.layout_differences(make_table(clic=(230, 226)))["prior"] == ""


def test_a_single_checkpoint_is_compared_by_the_prior_of_rows():
    table = make_table(**TWO_SEEDS)
    priors = ColumnPriors(SeedPrior(1.0, 1.0, 3), SeedPrior(2.0, 1.0, 3))
    runs = table.runs_by_seed
    for right, prior in (("pretrained", priors.row), ("finetune", priors.pair)):
        assert tables.select_prior(priors, tables.pair_runs(runs["clic"], runs[right], SWAP)) == prior


# how often they hold the truth


@pytest.mark.parametrize("spread", coverage.SPREADS)
@pytest.mark.parametrize("seeds", [2, 3])
def test_intervals_hold_the_truth_and_are_narrower(seeds, spread):
    """Six rows: 500 tables, so that one of 100 intervals is luck."""
    for held_before, width_before, held, width, _ in coverage.measure_tables(6, seeds, spread, 0, 3000).values():
        assert 93 <= held_before <= 97 and 93 <= held <= 98
        assert width < (0.5 if seeds == 2 else 0.9) * width_before


def test_planted_differences_are_decided_more_often_and_no_more_are_false():
    (before, false_before), (after, false_after) = (
        coverage.count_decided(2, "alike", 0, 100, is_moderated) for is_moderated in (False, True)
    )
    assert before < 2 < 3.5 < after and false_after <= false_before + 0.1

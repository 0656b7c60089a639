"""Differences over backbones, seeds and items: variances by loops, how often intervals hold, and tables over versions.

B backbones, S seeds, I items.
"""

import csv
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as scipy_stats

from compclip.report import (
    claims,
    decisions,
    first_screen,
    report_page,
    statistics,
    table_formats,
    table_heads,
    tables,
)
from compclip.report.statistics import BackboneSpread, Spread, Variance, student_quantile
from compclip.report.tables import Column
from compclip.runs.item_outcomes import COMPOSITION, Items
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import Trained
from compclip.track import report_rows
from compclip.track.entries import EntryOptions
from tests import fake_runs
from tests.report import made_page
from tests.report.test_crossed import make_differences

SWAP = Column("b", "swap")
VERSIONS = {"worlds": ["one", "two"]}
# Two backbones, two seeds, three items: every effect by hand is a small number.
GAPS_BSI = [[[3.0, 5.0, 1.0], [1.0, 6.0, 2.0]], [[0.0, 2.0, 1.0], [2.0, 1.0, 0.0]]]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def mean_squares(gap_BSI):
    """The three-way layout's mean squares over its number of values, by loops: main effects and interactions."""
    sizes = [len(gap_BSI), len(gap_BSI[0]), len(gap_BSI[0][0])]
    places = [(b, s, i) for b in range(sizes[0]) for s in range(sizes[1]) for i in range(sizes[2])]

    def level(place, axes):
        return mean(gap_BSI[b][s][i] for b, s, i in places if all((b, s, i)[a] == place[a] for a in axes))

    def effect(place, axes):
        """Inclusion and exclusion: the level, less all effects of fewer axes."""
        axis_subsets = [[axis for k, axis in enumerate(axes) if number >> k & 1] for number in range(2 ** len(axes))]
        return level(place, axes) - sum(effect(place, subset) for subset in axis_subsets if len(subset) < len(axes))

    squares = {}
    for axes in ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]):
        freedom = np.prod([sizes[a] - 1 for a in axes])
        squares["".join("BSI"[a] for a in axes)] = sum(effect(p, axes) ** 2 for p in places) / freedom / len(places)
    return squares


def estimate(gap_BSI):
    gap_TI = np.reshape(gap_BSI, (-1, np.shape(gap_BSI)[2]))
    differences = [make_differences(gap_TI)]
    return statistics.estimate_spread(gap_TI.mean(axis=1).tolist(), differences, len(gap_BSI)), gap_TI, differences


@pytest.mark.parametrize("sizes", [None, (4, 3, 5), (3, 3, 4), (2, 5, 3)])
def test_the_variances_are_those_of_the_three_way_layout(rng, sizes):
    """Each is a mean square over the number of values; an item's is over items less one, as a sample's."""
    gap_BSI = rng.normal(size=sizes).tolist() if sizes else GAPS_BSI
    spread, _, _ = estimate(gap_BSI)
    expected, over = mean_squares(gap_BSI), spread.over_backbones
    assert (spread.seed.value, over.backbone.value, over.together) == pytest.approx(
        (expected["S"], expected["B"], expected["BS"])
    )
    assert (spread.unit.value, spread.noise, over.noise, over.noise_together) == pytest.approx(
        (expected["I"], expected["SI"], expected["BI"], expected["BSI"])
    )
    freedoms = (spread.seed.freedom, over.backbone.freedom, spread.unit.freedom)
    assert freedoms == tuple(len(axis) - 1 for axis in (gap_BSI[0], gap_BSI, gap_BSI[0][0]))


def test_a_layout_that_a_person_checks():
    """Backbones' means 3 and 1, seeds' 2 and 2, items' 1.5, 3.5 and 1; the mean is 2."""
    spread, gap_TI, differences = estimate(GAPS_BSI)
    interval, basis = statistics.compute_interval(gap_TI.mean(axis=1).tolist(), differences, 2)
    assert (interval.estimate, basis, interval.items) == (2.0, "backbones, seeds and items", 3)
    assert (spread.over_backbones.backbone.value, spread.seed.value) == pytest.approx(((1 + 1) / 1 / 2, 0))
    assert spread.unit.value == pytest.approx(((0.5**2 + 1.5**2 + 1) / 2) / 3)


def test_the_fewer_keep_what_is_together():
    """Four backbones and three seeds: seeds keep the interaction, backbones lose it, items lose all noise."""
    spread = Spread(3, Variance(2.0, 2), (Variance(5.0, 99),), 0.5, BackboneSpread(4, Variance(3.0, 3), 1.2, 0.7, 0.1))
    seeds, backbones, items = spread.variances
    assert (seeds.freedom, backbones.freedom, items.freedom) == (2, 3, 99)
    assert (seeds.value, backbones.value, items.value) == pytest.approx(
        (2.0 - 0.05, 3.0 - 1.2 * 1.2, 5 - 0.5 - 0.7 + 0.1)
    )
    square = sum(v.value * student_quantile(v.freedom) ** 2 for v in spread.variances)
    assert spread.half_width() == pytest.approx(sqrt(square))
    assert spread.p_value(spread.half_width()) == pytest.approx(0.05, rel=0.01)
    two = Spread(5, Variance(2.0, 4), (Variance(5.0, 99),), 0.5, BackboneSpread(2, Variance(3.0, 1), 1.2, 0.7, 0.1))
    assert [v.value for v in two.variances] == pytest.approx([3.0 - 0.07, 2.0 - 1.2 * 1.2, 4 - 0.1])


def test_one_seed_of_several_backbones_is_a_layout_of_two():
    gap_BI = np.array([[1.0, 0.0, 2.0], [3.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    interval, basis = statistics.compute_interval(gap_BI.mean(axis=1).tolist(), [make_differences(gap_BI)], 3)
    seeds, _ = statistics.compute_interval(gap_BI.mean(axis=1).tolist(), [make_differences(gap_BI)])
    assert (interval.low, interval.high) == pytest.approx((seeds.low, seeds.high)) and basis == "backbones and items"


def test_without_items_backbones_and_seeds_remain():
    assert statistics.compute_interval([1.0, 2.0, 3.0, 5.0], None, 2)[1] == "backbones and seeds"
    assert statistics.compute_interval([1.0, 2.0], None, 2)[1] == "backbones alone"


def integrate_coverage(backbones, seeds, effects, units, draws):
    """How often an interval holds the truth over drawn mean squares; the units' variances are known.

    `effects` are the variances of the mean by backbones, seeds and both, `units` by items alone, with a backbone, with a
    seed, and with both.
    """
    backbone, seed, both = effects
    item, with_backbone, with_seed, with_both = units
    made_B, made_S, made_BS = (
        value * draw
        for value, draw in zip(
            (backbone + both + with_backbone + with_both, seed + both + with_seed + with_both, both + with_both),
            draws, strict=True,
        )
    )  # fmt: skip
    variance_I = (Variance(sum(units), np.inf),)
    half_Q = [
        Spread(
            seeds, Variance(s, seeds - 1), variance_I, with_seed + with_both,
            BackboneSpread(backbones, Variance(b, backbones - 1), bs, with_backbone + with_both, with_both),
        ).half_width()
        for b, s, bs in zip(made_B, made_S, made_BS, strict=True)
    ]  # fmt: skip
    return np.mean(1 - 2 * scipy_stats.norm.sf(np.array(half_Q) / sqrt(sum(effects) + sum(units))))


EFFECTS = [(0, 0, 0), (0, 0, 1), (0.3, 0, 1), (4, 0, 0.3), (30, 0, 1), (0, 4, 0.3), (1, 1, 0.3), (30, 30, 1)]
UNITS = [(1, 0.2, 0.2, 0.2), (0.05, 0.3, 0.3, 0.5)]


@pytest.mark.parametrize(("backbones", "seeds", "most"), [(4, 3, 0.985), (3, 3, 0.989), (2, 5, 0.992), (4, 5, 0.982)])
def test_intervals_hold_the_truth_94_to_98_times_in_a_hundred(backbones, seeds, most):
    """Backbones of no, small and dominating share; a little more where two dominate, by Banerjee's rule."""
    rng = np.random.default_rng(0)
    freedoms = (backbones - 1, seeds - 1, (backbones - 1) * (seeds - 1))
    draws = [scipy_stats.chi2.ppf((rng.permutation(800) + 0.5) / 800, f) / f for f in freedoms]
    for effects in EFFECTS:
        for units in UNITS:
            covered_share = integrate_coverage(backbones, seeds, effects, units, draws)
            assert 0.937 <= covered_share <= most, (effects, units)


def test_over_seeds_alone_backbones_that_differ_are_overlooked(rng):
    """What the check above would find: twelve trainings counted as twelve seeds."""
    backbone_B, hits = rng.normal(size=(300, 4, 1)), np.zeros(2)
    for gap_BS in backbone_B + 0.1 * rng.normal(size=(300, 4, 3)):
        for which, backbones in enumerate((4, 1)):
            interval, _ = statistics.compute_interval(gap_BS.ravel().tolist(), None, backbones)
            hits[which] += interval.low <= 0 <= interval.high
    assert hits[0] >= 0.93 * 300 and hits[1] < 0.8 * 300


def test_more_seeds_and_backbones_by_their_variances():
    """Of the mean: backbones 2, seeds 1, both 0.6, items 5; with a backbone 0.3, with a seed 0.4, with both 0.1."""
    over = BackboneSpread(4, Variance(2 + 0.6 + 0.3 + 0.1, 3), 0.6 + 0.1, 0.3 + 0.1, 0.1)
    spread = Spread(3, Variance(1 + 0.6 + 0.4 + 0.1, 2), (Variance(5 + 0.3 + 0.4 + 0.1, 99),), 0.4 + 0.1, over)
    same = spread.with_seeds(3)
    assert [v.value for v in same.variances] == pytest.approx([v.value for v in spread.variances])
    larger = spread.with_sizes(8, 6)  # twice as many of each
    assert larger.over_backbones.backbone.value == pytest.approx(2 / 2 + 0.6 / 4 + 0.3 / 2 + 0.1 / 4)
    assert larger.seed.value == pytest.approx(1 / 2 + 0.6 / 4 + 0.4 / 2 + 0.1 / 4)
    assert larger.over_backbones.together == pytest.approx(0.6 / 4 + 0.1 / 4)
    assert larger.unit.value == pytest.approx(5 + 0.3 / 2 + 0.4 / 2 + 0.1 / 4)
    assert (larger.noise, larger.over_backbones.noise) == pytest.approx((0.2 + 0.025, 0.15 + 0.025))
    assert (larger.seed.freedom, larger.over_backbones.backbone.freedom) == (5, 7)


def test_what_backbones_leave_open_is_said():
    over = BackboneSpread(4, Variance(4.0, 3), 0.0)
    spread = Spread(3, Variance(0.0, 2), (Variance(0.0, 99),), 0.0, over)
    interval = statistics.Interval(0.01, -1.0, 1.0, 100, spread)
    text = decisions.describe_seeds(interval, 0.0, SWAP)
    assert text.startswith("no number of seeds would decide a difference this small: its items and backbones leave ±")


# --- tables over versions


def run(method, backbone, seed, right, total=400):
    """A run with `right` of `total` items right."""
    items = {"swap": Items(tuple(map(str, range(total))), (np.arange(total) < right) * 1.0)}
    result = Result("b", "b", COMPOSITION, {"swap": right / total}, items=items)
    cell = fake_runs.cell(method, backbone, seed=seed)
    return FinishedRun(Trained(Path()), Path(), cell, {}, [], {}, {"b": result})


RIGHT = {
    ("pretrained", "one"): [200],
    ("pretrained", "two"): [220],
    ("clic", "one"): [300, 304, 302],
    ("clic", "two"): [310, 316, 313],
    ("negclip", "one"): [260, 262, 261],
    ("negclip", "two"): [300, 302, 301],
}


def make_runs(right=RIGHT):
    return [run(method, backbone, s, n) for (method, backbone), seeds in right.items() for s, n in enumerate(seeds)]


def test_rows_are_over_versions():
    """Six checkpoints of clic, two of the pretrained model; the difference is to the same backbone's own start."""
    (table,) = tables.build_tables(make_runs(), [SWAP], versions=VERSIONS)
    assert (table.name, table.backbones) == ("worlds / scenes", ("one", "two"))
    cells = {row.method: row.statistics[0] for row in table.rows}
    assert [(c.seeds, c.backbones) for c in cells.values()] == [(2, 2), (6, 2), (6, 2)]
    assert cells["pretrained"].mean == pytest.approx(210 / 400)
    assert cells["clic"].mean == pytest.approx((302 + 313) / 800)
    assert cells["clic"].std == pytest.approx(np.std([300, 304, 302, 310, 316, 313], ddof=1) / 400)
    assert cells["clic"].change == pytest.approx((102 + 93) / 800)
    gap_TI = [np.arange(400) < n for n in (300, 304, 302, 310, 316, 313)]
    base_TI = [np.arange(400) < n for n in (200, 200, 200, 220, 220, 220)]
    difference_TI = np.subtract(gap_TI, base_TI, dtype=float)
    expected, basis = statistics.compute_interval(
        difference_TI.mean(axis=1).tolist(), [make_differences(difference_TI)], 2
    )
    assert cells["clic"].difference.plain == pytest.approx(expected.plain) and cells["clic"].basis == basis


def test_differences_claims_and_order_are_over_versions():
    runs = make_runs()
    (table,) = tables.build_tables(runs, [SWAP], versions=VERSIONS)
    (contrast,) = tables.build_contrasts([table], "negclip")
    statistic = next(row for row in contrast.rows if row.method == "clic").statistics[0]
    assert (statistic.seeds, statistic.basis) == (6, "backbones, seeds and items")
    claim = claims.Claim("c", "p", "t", "f", (claims.parse_inequality("clic > negclip on b/swap", "here"),))
    (finding,) = claims.judge_claims([claim], runs, [table], {"b/swap": SWAP})
    assert finding.evidence[0].interval == statistic.difference
    (version_table, _) = tables.build_version_tables(runs, [SWAP], tables.PictureSplit(), VERSIONS)
    (of_one,) = claims.judge_claims([claim], runs, [version_table], {"b/swap": SWAP})
    assert (finding.verdict, of_one.verdict) == ("undecided", "holds")  # 41 and 12 items: backbones differ
    ordered = decisions.mark_order(table)
    assert [row.statistics[0].equal_to for row in ordered.rows] == ["", "negclip", "clic"]


def test_only_seeds_that_all_versions_have_are_compared():
    right = {key: seeds[:2] if key == ("clic", "two") else seeds for key, seeds in RIGHT.items()}
    (table,) = tables.build_tables(make_runs(right), [SWAP], versions=VERSIONS)
    statistic = next(row for row in table.rows if row.method == "clic").statistics[0]
    assert statistic.change == pytest.approx((100 + 104 + 90 + 96) / 1600)
    assert statistic.difference.spread.seeds == 2


def test_files_say_what_they_are_over(tmp_path):
    runs = make_runs()
    page = made_page.build_page(
        runs, ["b"], ["b/swap"], (), (), lambda run: {"train": {}, "method": {}}, reference="negclip",
        versions=VERSIONS,
    )  # fmt: skip
    report_page.write_report(page, tmp_path / "reports")
    lines = list(csv.DictReader((tmp_path / "reports" / "report.csv").open()))
    clic = {line["backbone"]: line for line in lines if (line["method"], line["metric"]) == ("clic", "swap")}
    assert {name: (line["seeds"], line["backbones"], line["over"]) for name, line in clic.items()} == {
        "worlds": ("6", "2", "backbones, seeds and items"),
        "one": ("3", "1", "seeds and items"),
        "two": ("3", "1", "seeds and items"),
    }
    contrasts = list(csv.DictReader((tmp_path / "reports" / "reference.csv").open()))
    assert {line["backbone"] for line in contrasts} == {"worlds", "one", "two"}
    markdown = (tmp_path / "reports" / "report.md").read_text()
    assert "Versions: one, two; numbers are means over them and their seeds" in markdown
    assert "| method | runs |" in markdown and "## one / scenes" not in markdown
    html = (tmp_path / "reports" / "index.html").read_text()
    assert "<summary>Each version by itself</summary>" in html and "6 checkpoints of 2 backbones" in html
    assert "one, two; numbers are means" in table_formats.format_latex(page.tables.main)
    assert table_formats.describe_basis(page.tables.main[0].rows[1].statistics[0]) == ""
    assert first_screen.judge_methods(page.tables.contrasts[0], "negclip") == []
    assert table_heads.name_count(page.tables.of_versions[0]) == "seeds"
    entries = {
        entry.name: entry
        for entry in report_rows.make_report_entries(tmp_path, (), EntryOptions("e", frozenset(), "p"))
    }
    assert {"clic-worlds-scenes", "clic-one-scenes", "clic-two-scenes"} <= entries.keys()
    assert "6 checkpoints of 2 backbones, whose own rows have their runs." in entries["clic-worlds-scenes"].note
    assert "3 seeds, whose runs stand below." in entries["clic-one-scenes"].note

"""Every number of the tables against the bits that made it (see fake_runs)."""

import dataclasses

import pytest

from compclip.base.errors import UserError
from compclip.report import claims, table_formats, tables
from compclip.report.statistics import Interval
from compclip.report.tables import Column
from compclip.runs.item_outcomes import CLASSIFICATION, COMPOSITION
from compclip.runs.result_files import Result
from tests import fake_runs
from tests.report import made_page


@pytest.fixture
def table(runs):
    """method -> column name -> entry, for all columns and the summary."""
    all_columns = tables.list_columns(runs, fake_runs.BENCHMARKS)
    selected = tables.select_columns(runs, None, fake_runs.BENCHMARKS)
    (group,) = tables.build_tables(runs, (*tables.summary_columns(selected, runs), *all_columns))
    return made_page.read_statistics(group)


def test_pretrained_is_the_first_row_whatever_the_order(tmp_path):
    grid = fake_runs.cells(("clic", "negclip", "pretrained"))
    runs = made_page.make_grid(tmp_path, grid)
    (group,) = tables.build_tables(runs, tables.select_columns(runs, None, fake_runs.BENCHMARKS))
    assert [row.method for row in group.rows] == ["pretrained", "clic", "negclip"]


def test_mean_and_deviation_over_seeds(table):
    """And a change as it is, also where less is better: 0.25, 0.625."""
    swap_att = table["negclip"]["sugarcrepe/swap_att"]
    assert (swap_att.mean, swap_att.seeds) == (pytest.approx((0.8 + 1.0) / 2), 2)
    assert swap_att.std == pytest.approx(0.02**0.5)  # ((0.1)^2 + (0.1)^2) / (2 - 1)
    assert table["negclip"]["hard_positives/brittleness"].change == pytest.approx(0.375)


def test_what_a_metric_is_comes_from_its_file_and_not_from_its_name(runs):
    """A metric called brittleness of which more is better is ranked so, and a swap that is a cosine not at all."""
    first = runs[0].results["hard_positives"]
    changed_result = dataclasses.replace(first, lower=frozenset(), scores=frozenset({"brittleness"}))
    columns = [tables.make_measured_column(result, "brittleness") for result in (first, changed_result)]
    assert [(c.arrow, c.scale, c.digits) for c in columns] == [("↓", 100.0, 1), ("", 1.0, 3)]


def test_difference_to_the_pretrained_model(table):
    entry = table["negclip"]["sugarcrepe/swap_att"]
    assert entry.change == entry.difference.estimate == pytest.approx(0.4)
    assert entry.difference.items == 10
    # Per item, five are 0, three +1, two +0.5: their mean varies by 1.9 / 90. Seeds, 0.3 and 0.5, vary by 0.02 / 2,
    # less a tenth of the noise of a seed on an item, 0.8 / 90 / 2; items by the rest. Student's factors are 2.262 for items and 12.706 for two seeds.
    items, seeds = 1.5 / 90, 0.01 - 0.04 / 90
    half = (2.2622**2 * items + 12.706**2 * seeds) ** 0.5
    assert (entry.difference.low, entry.difference.high) == pytest.approx((0.4 - half, 0.4 + half), abs=1e-3)
    assert (entry.verdict, entry.basis) == (0, "seeds and items")


def test_mean_of_subsets_weighs_each_subset(table):
    entry = table["clic"]["sugarcrepe/swap"]
    assert entry.change == pytest.approx((0.4 + 0.2) / 2)
    assert entry.difference.items == 15
    # a subset's own variance: .4 * .6 / 9 and .2 * .8 / 4; t with 14 degrees of freedom
    deviation = ((0.4 * 0.6 / 9 + 0.2 * 0.8 / 4) / 4) ** 0.5
    assert entry.difference.high - entry.difference.low == pytest.approx(2 * 2.1448 * deviation, rel=1e-3)


def test_a_mean_of_means_counts_every_item_once(runs):
    """`overall` is the mean of swap (two subsets) and swap_obj: swap_att weighs 1/4 and swap_obj, drawn once, 3/4."""
    grown = [_with_overall(run) for run in runs]
    clic_runs, base = ([r for r in grown if r.cell.method == m] for m in ("clic", "pretrained"))
    entry = tables.compute_statistic(Column("sugarcrepe", "overall"), clic_runs, base)
    assert entry.change == pytest.approx(0.4 / 4 + 0.2 * 3 / 4)
    deviation = (0.4 * 0.6 / 9 / 16 + 0.2 * 0.8 / 4 * 9 / 16) ** 0.5
    assert entry.difference.high - entry.difference.low == pytest.approx(2 * 2.1448 * deviation, rel=1e-3)
    assert not tables.is_detail(Column("sugarcrepe", "overall"), grown)
    assert all(tables.is_detail(Column("sugarcrepe", m), grown) for m in ("swap", "swap_obj"))


def _with_overall(run):
    old = run.results["sugarcrepe"]
    mean = (old.metrics["swap"] + old.metrics["swap_obj"]) / 2
    new = dataclasses.replace(old, metrics=old.metrics | {"overall": mean},
                              means=old.means | {"overall": ["swap", "swap_obj"]})  # fmt: skip
    return dataclasses.replace(run, results=run.results | {"sugarcrepe": new})


def test_a_metric_without_items_is_compared_over_its_seeds(table):
    entry = table["negclip"]["sugarcrepe/swap_att/unseen_pairs"]
    assert (entry.change, entry.difference, entry.verdict) == (0.0, Interval(0.0, 0.0, 0.0, 0), 0)
    assert entry.basis == "seeds alone"


def test_summary_columns(table):
    assert table["clic"]["summary/Comp"].mean == pytest.approx((0.9 + 0.6) / 2)
    assert table["clic"]["summary/I2T"].mean == pytest.approx(0.9)
    assert table["clic"]["summary/T2I"].mean == pytest.approx(0.9)
    assert "summary/ZS" not in table["clic"]


def test_comp_weighs_benchmarks_alike(runs):
    first = runs[-1]
    copied_result = dataclasses.replace(first.results["sugarcrepe"], benchmark="other")
    runs = [dataclasses.replace(r, results=r.results | {"other": copied_result}) for r in runs]
    columns = (Column("sugarcrepe", "swap_att"), Column("sugarcrepe", "swap_obj"), Column("other", "swap_att"))
    comp = tables.summary_columns(columns, runs)[0]
    assert tables.column_value(runs[-1], comp) == pytest.approx(((0.9 + 0.6) / 2 + 0.9) / 2)


def test_one_number_a_benchmark_is_its_owner_s(runs):
    """What the benchmark declares, whatever else is shown."""
    metrics = {
        "a": (COMPOSITION, {"average": 0.1, "average_kinds": 0.3}, "average_kinds"),
        "b": (COMPOSITION, {"average": 0.5}, "average"),
        "c": (CLASSIFICATION, {"top_1": 0.2, "elevater": 0.4}, "elevater"),
        "d": (CLASSIFICATION, {"top_1": 0.8}, "top_1"),
    }
    results = {name: Result(name, name, kind, of, headline=(best,)) for name, (kind, of, best) in metrics.items()}
    run, columns = dataclasses.replace(runs[0], results=results), (Column("a", "average"), Column("b", "average"))
    summary = {c.metric: tables.column_value(run, c) for c in tables.summary_columns(columns, [run])}
    assert summary == pytest.approx({"Comp": 0.4, "ZS": 0.6})


def test_default_columns_leave_out_subsets_and_groups(runs):
    names = [c.name for c in tables.select_columns(runs, None, fake_runs.BENCHMARKS)]
    assert names == [
        "sugarcrepe/swap", "hard_positives/brittleness", "hard_positives/mean_score",
        "retrieval/i2t_recall_at_1", "retrieval/t2i_recall_at_1",
    ]  # fmt: skip


def test_backbones_and_data_make_groups_with_the_pretrained_row_in_each(tmp_path):
    grid = [*fake_runs.cells(), fake_runs.cell("clic", data="coco"), fake_runs.cell("negclip", backbone="siglip")]
    runs = made_page.make_grid(tmp_path, grid)
    tables_of_groups = tables.build_tables(runs, tables.select_columns(runs, None, fake_runs.BENCHMARKS))
    assert [(g.name, [r.method for r in g.rows]) for g in tables_of_groups] == [
        ("vit / scenes", ["pretrained", "negclip", "clic"]),
        ("vit / coco", ["pretrained", "clic"]),
        ("siglip / scenes", ["negclip"]),
    ]
    first = tables_of_groups[1].columns[0]
    assert tables_of_groups[1].rows[1].statistics[first].change == pytest.approx(0.3)
    assert tables_of_groups[2].rows[0].statistics[first].change is None


def test_results_on_other_benchmark_files_do_not_compare(runs):
    changed = dataclasses.replace(runs[-1].results["sugarcrepe"], fingerprint="other")
    with pytest.raises(UserError, match="results of sugarcrepe: clic-vit-scenes-1 and pretrained-vit-scenes-0"):
        tables.check_same_files([*runs[:-1], dataclasses.replace(runs[-1], results={"sugarcrepe": changed})])


# one checkpoint counts once


SWAP = Column("b", "swap")


def build_seed_runs(method, right_I, **facts):
    """One checkpoint under three seeds."""
    return [made_page.make_run(method, seed, right_I, **facts) for seed in range(3)]


PRETRAINED = build_seed_runs("pretrained", [1, 0] * 50)


@pytest.mark.parametrize("facts", [{"weights_fingerprint": "w"}, {"run_key": "k"}])
def test_a_checkpoint_under_three_seeds_is_one(facts):
    """A released one and the pretrained model: no deviation, one seed, an interval over the items alone."""
    (group,) = tables.build_tables(
        [*PRETRAINED, *build_seed_runs("released.x", [1] * 60 + [0, 1] * 20, **facts)], [SWAP]
    )
    for row in group.rows:
        (statistic,) = row.statistics.values()
        assert (row.seeds, statistic.seeds, statistic.std) == (1, 1, None)
    assert (statistic.basis, statistic.verdict, statistic.change) == ("items alone", 1, pytest.approx(0.3))
    assert "| released.x | 1 | 80.0 ▲ |" in table_formats.format_markdown_table(group)
    (_, shown_seeds, _) = table_formats.layout_means(group)["rows"][1]
    assert shown_seeds == 1 and "±" not in table_formats.layout_means(group)["rows"][1][2][0].small
    (finding,) = claims.judge_claims(
        [claims.Claim("c", "p", "t", "f", (claims.parse_inequality("released.x > pretrained on b/swap", "here"),))],
        [group], {"b/swap": SWAP},
    )  # fmt: skip
    assert (finding.evidence[0].seeds, finding.evidence[0].std, finding.evidence[0].basis) == (1, None, "items alone")

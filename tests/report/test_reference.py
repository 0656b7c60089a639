"""Differences to the reference: values, pairs and intervals against matrices that a person can check."""

import csv
from dataclasses import replace
from functools import partial

import pytest

from compclip.report import report_page, table_formats, tables
from compclip.report.tables import Column, MethodRow, ResultTable
from tests import fake_runs
from tests.report import made_page


def built(tmp_path, cells, reference="clic", correction=""):
    runs = made_page.make_grid(tmp_path, cells)
    return made_page.build_grid_page(runs, reference=reference, correction=correction)


def read_statistics(page):
    (group,) = page.tables.contrasts
    return made_page.read_statistics(group)


@pytest.fixture
def page(tmp_path):
    return built(tmp_path, fake_runs.cells())


T3, T4, T1 = 3.18245, 2.77645, 12.7062  # Student's t with 3, 4 and 1 degrees of freedom


@pytest.mark.parametrize(
    ("column", "mean", "square", "items"),
    [
        # negclip 1100 1110, clic 0000 1000: 1 1 0 0 and 0 1 1 0. Seeds vary by 0; items, on average 0.5 1 0.5 0,
        # by 0.5 / (4 * 3), all of it noise, of which nine tenths of the items' factor are left.
        ("hard_positives/brittleness", 0.5, 0.5 / 12 * (0.9 * T3) ** 2, 4),
        # negclip 11100 11110, clic 11111 11110: 0 0 0 -1 -1 and 0. Seeds vary by 0.08 / 2, items by 0.3 / (5 * 4), of
        # which noise of a seed on an item is all; a tenth of it is taken off the seeds.
        ("retrieval/t2i_recall_at_1", -0.2, (0.04 - 0.0015) * T1**2, 5),
        # negclip 11100 11000, clic 11110 11111: 0 0 0 -1 0 and 0 0 -1 -1 -1. Seeds vary by 0.08 / 2, items by
        # 0.7 / (5 * 4), noise by 0.6 / (5 * 4) / 2.
        ("retrieval/i2t_recall_at_1", -0.4, (0.04 - 0.0015) * T1**2 + (0.035 - 0.015) * T4**2, 5),
    ],
)
def test_differences_and_intervals_by_hand(page, column, mean, square, items):
    ours = read_statistics(page)["negclip"][column]
    half = square**0.5
    assert ours.change == ours.difference.estimate == pytest.approx(mean)
    assert (ours.difference.low, ours.difference.high) == pytest.approx((mean - half, mean + half), abs=2e-3)
    assert (ours.difference.items, ours.seeds, ours.basis, ours.verdict) == (items, 2, "seeds and items", 0)


def compared(column, ours, theirs, **how):
    """The statistic of two methods from the number of right items of each seed."""
    runs = []
    for method, right in (("ours", ours), ("theirs", theirs)):
        make = partial(made_page.make_run_of_right, method, metric=column.metric, **how)
        runs.append(tables.index_runs(make(seed, number) for seed, number in enumerate(right)))
    return tables.compute_difference(column, *runs)


@pytest.mark.parametrize(
    ("column", "verdict"),
    [(Column("b", "swap"), 1), (Column("b", "brittleness", lower=True), -1), (Column("b", "score", score=True), 0)],
)
def test_marks_say_which_is_better(column, verdict):
    """Brittleness is better when lower, and of scores neither is."""
    for sign in (1, -1):
        ours = compared(column, *[(300, 304, 302), (200, 203, 199)][::sign])
        assert (ours.verdict, ours.basis, ours.difference.sign) == (sign * verdict, "seeds and items", sign)


def test_seeds_that_scatter_leave_it_open_though_every_one_s_items_decide():
    column = Column("b", "swap")
    assert compared(column, (320, 220, 270), (200, 200, 200)).verdict == 0
    for right in (320, 220, 270):
        alone = compared(column, (right,), (200,))
        assert (alone.verdict, alone.basis) == (1, "items alone")


def test_a_metric_without_items_is_judged_by_its_seeds():
    """Differences 0.25, 0.26, 0.27: deviation 0.01, and t of two degrees of freedom 4.302653."""
    ours = compared(Column("b", "swap"), (300, 304, 308), (200, 200, 200), keep=False)
    half = 4.302653 * 0.01 / 3**0.5
    assert (ours.difference.low, ours.difference.high) == pytest.approx((0.26 - half, 0.26 + half))
    assert (ours.difference.items, ours.basis, ours.verdict) == (0, "seeds alone", 1)
    single = compared(Column("b", "swap"), (300,), (200,), keep=False)
    assert (single.change, single.difference, single.basis, single.verdict) == (0.25, None, "", 0)


def test_only_seeds_of_both_count(tmp_path):
    """And of a single one the interval is over the items alone."""
    cells = [fake_runs.cell("negclip", seed=s) for s in (0, 1, 2)] + [fake_runs.cell("clic", seed=s) for s in (1, 2)]
    page = built(tmp_path / "two", cells)
    assert page.tables.contrasts[0].rows[0].seeds == 2
    # swap of negclip: 0.7, 0.9, 0.85, of clic 0.75 with every seed
    swap = read_statistics(page)["negclip"]["sugarcrepe/swap"]
    assert (swap.change, swap.seeds) == (pytest.approx((0.9 + 0.85) / 2 - 0.75), 2)
    single = read_statistics(built(tmp_path / "one", cells[:4]))["negclip"]
    swap, bad = single["sugarcrepe/swap"], single["hard_positives/brittleness"]
    assert (swap.change, swap.seeds, swap.basis) == (pytest.approx(0.9 - 0.75), 1, "items alone")
    half = T3 * (1 / 12) ** 0.5  # negclip 1110, clic 1000: 0 1 1 0
    assert (bad.difference.low, bad.difference.high) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-4)
    (row,) = built(tmp_path / "none", [cells[0], *cells[3:]]).tables.contrasts[0].rows
    assert row.seeds == 0 and row.statistics == {}


def test_rows_are_all_others_of_each_table(tmp_path):
    cells = [fake_runs.cell(m, data=d) for d in ("scenes", "coco") for m in fake_runs.METHODS]
    page = built(tmp_path, [cell for cell in cells if cell.folder != "clic/vit-coco-0"])
    assert [[row.method for row in group.rows] for group in page.tables.contrasts] == [["pretrained", "negclip"], []]
    assert built(tmp_path, cells, reference="").tables.contrasts == ()


def test_the_pretrained_row_is_the_other_table_s_turned_round(page):
    """One rule for both: clic - pretrained and pretrained - clic, over seeds and items together."""
    turned = {c.name: e for c, e in page.tables.main[0].rows[2].statistics.items()}
    for name, ours in read_statistics(page)["pretrained"].items():
        assert ours.change == pytest.approx(-turned[name].change), name
        main_difference = turned[name].difference
        ends = (-main_difference.high, -main_difference.low)
        assert (ours.difference.low, ours.difference.high) == pytest.approx(ends), name
        assert (ours.basis, ours.seeds) == (turned[name].basis, turned[name].seeds)
        assert ours.difference.items == main_difference.items


def test_page_csv_and_latex_say_the_same(page):
    text = report_page.render_page(page)
    section = text.partition('<details id="reference">')[2].partition("</details>")[0]
    row = section.partition('<th scope="row">negclip</th>')[2].partition("</tr>")[0]
    ours = read_statistics(page)["negclip"]["hard_positives/brittleness"]
    between = f"[−{-100 * ours.difference.low:.1f}, +{100 * ours.difference.high:.1f}]"
    assert f"<td>+50.0<small>{between}</small></td>" in row
    assert row.count("seeds alone</small>") == 1  # mean_score
    assert "items alone" not in row
    tex = table_formats.format_contrasts_latex(page.tables.contrasts, "clic")
    assert rf"+50.0 {{\scriptsize {{}}{between.replace('−', '$-$')}}}" in tex
    assert r"\caption{vit / scenes, composition: difference to clic" in tex
    sections = table_formats.split_sections(page.tables.contrasts[0])
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == len(sections)
    lines = list(csv.DictReader(table_formats.format_contrasts_csv(page.tables.contrasts, "clic").splitlines()))
    (line,) = [x for x in lines if (x["method"], x["metric"]) == ("negclip", "brittleness")]
    assert (line["reference"], line["better"], line["seeds"], line["difference"]) == ("clic", "lower", "2", "0.500000")
    assert (line["low"], line["high"]) == (f"{ours.difference.low:.6f}", f"{ours.difference.high:.6f}")
    assert (line["over"], line["items"], line["verdict"]) == ("seeds and items", "4", "")
    assert {x["method"] for x in lines} == {"pretrained", "negclip"}


def build_table(column, *statistics):
    """A table of one row, whose columns are alike."""
    columns = tuple(replace(column, metric=f"{column.metric}{number}") for number in range(len(statistics)))
    cells = {c: statistic for c, statistic in zip(columns, statistics, strict=True) if statistic}
    return ResultTable("a_b", "c", columns, (MethodRow("x_y", (), cells),))


def test_marks_and_what_an_interval_is_over_are_the_same_everywhere():
    """One seed, 100 of 400 items worse; what less than seeds and items says so is beside the interval."""
    column = Column("b", "brittleness", lower=True)
    alone, both = compared(column, (300,), (200,)), compared(column, (300, 304, 302), (200, 200, 200))
    group = build_table(column, alone, both)
    ends = [table_formats.format_interval(statistic.difference, column) for statistic in (alone, both)]
    (_, _, cells) = table_formats.layout_differences(group)["rows"][0]
    assert [(c.small, c.css) for c in cells] == [(f"{ends[0]} items alone", "worse"), (ends[1], "worse")]
    alone_table = table_formats.layout_differences(build_table(column, alone))
    assert (alone_table["basis"], alone_table["rows"][0][2][0].small) == ("items alone", ends[0])
    text = rf"+25.0$^\ast$ {{\scriptsize {{}}{ends[0]} items alone}} & +25.5$^\ast$ {{\scriptsize {{}}{ends[1]}}}"
    assert text in table_formats.format_contrasts_latex([group], "clic")
    lines = list(csv.DictReader(table_formats.format_contrasts_csv([group], "clic").splitlines()))
    assert [line["over"] for line in lines] == ["items alone", "seeds and items"]
    assert [line["verdict"] for line in lines] == ["worse", "worse"]


def test_a_number_without_items_and_seeds_has_no_interval():
    """And a missing number is a dash."""
    score = Column("b", "mean_score", score=True)
    group = build_table(score, compared(score, (100,), (100,), keep=False), None)
    assert compared(Column("b", "swap"), (300,), (100,), keep=False).verdict == 0
    (_, _, cells) = table_formats.layout_differences(group)["rows"][0]
    assert [(c.text, c.small) for c in cells] == [("0.000", "no items"), ("–", "")]
    assert r"x\_y & 0.000 & -- \\" in table_formats.format_contrasts_latex([group], "clic")
    (line,) = csv.DictReader(table_formats.format_contrasts_csv([group], "clic").splitlines())
    assert (line["difference"], line["low"], line["over"], line["items"]) == ("0.000000", "", "", "")


def test_the_statistic_of_runs_without_the_column_is_none(runs):
    negclip_runs, clic_runs = (tables.index_runs(r for r in runs if r.cell.method == m) for m in ("negclip", "clic"))
    assert tables.compute_difference(Column("sugarcrepe", "no"), negclip_runs, clic_runs) is None


@pytest.mark.parametrize(("correction", "name"), [("none", ""), ("benjamini_hochberg", "Benjamini-Hochberg")])
def test_page_and_markdown_say_what_is_corrected(tmp_path, correction, name):
    page = built(tmp_path, fake_runs.cells(), correction=correction)
    texts = made_page.write(page, tmp_path / "reports")
    for file in ("index.html", "report.md"):
        assert (f"by {name} (report.correction)" in texts[file]) is bool(name)

"""Differences to the reference: values, pairs and intervals against matrices that a person can check."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import pytest

from compclip.report import __main__ as report_command
from compclip.report import page, reference, reference_table, tables
from compclip.report.collect import collect
from compclip.report.tables import Column, Group, Row
from tests import fake_runs

DRAWS = 10_000


def built(tmp_path, cells, against="clic"):
    """The page of some cells' made results."""
    runs, _ = collect(cells, fake_runs.BENCHMARKS, fake_runs.make(tmp_path, cells))
    return page.build(runs, fake_runs.BENCHMARKS, None, [], [], lambda run: {}, against=against)


def found(made):
    """method -> column name -> statistic."""
    (group,) = made.contrasts
    return {r.method: {c.name: e for c, e in zip(group.columns, r.statistics, strict=True)} for r in group.rows}


@pytest.fixture
def made(tmp_path):
    return built(tmp_path, fake_runs.cells())


def resampled(differences):
    """The exact 95 % percentile interval of a mean: every sample with replacement, each as likely as any other."""
    every = [np.mean(sample) for sample in itertools.product(differences, repeat=len(differences))]
    return np.quantile(every, [0.025, 0.975], method="inverted_cdf")


@pytest.mark.parametrize(
    ("column", "differences"),  # negclip - clic, item by item, of outcomes averaged over both seeds
    [
        # negclip 1100 1110, clic 0000 1000
        ("hard_positives/brittleness", [0.5, 1.0, 0.5, 0.0]),
        # negclip 11100 11110, clic 11111 11110
        ("retrieval/t2i_recall_at_1", [0.0, 0.0, 0.0, -0.5, -0.5]),
        # negclip 11100 11000, clic 11110 11111
        ("retrieval/i2t_recall_at_1", [0.0, 0.0, -0.5, -1.0, -0.5]),
    ],
)
def test_differences_and_intervals_by_hand(made, column, differences):
    ours = found(made)["negclip"][column]
    assert ours.change == pytest.approx(np.mean(differences))
    assert ours.difference.items == len(differences) and ours.seeds == 2
    assert (ours.difference.low, ours.difference.high) == pytest.approx(tuple(resampled(differences)), abs=1e-12)


def test_marks_say_which_is_better(made):
    """Brittleness is better when lower; an interval that ends at 0 decides nothing."""
    negclip = found(made)["negclip"]
    assert negclip["hard_positives/brittleness"].verdict == -1
    assert negclip["retrieval/t2i_recall_at_1"].verdict == 0
    assert negclip["retrieval/i2t_recall_at_1"].verdict == -1
    assert negclip["hard_positives/mean_score"].verdict == 0 and negclip["hard_positives/mean_score"].difference is None


def test_the_interval_over_seeds_is_student_s(made):
    """t2i: 0.6 and 0.8 against 1.0 and 0.8: differences −0.4 and 0, deviation 0.4 / √2, t of one degree 12.7062."""
    seeds = found(made)["negclip"]["retrieval/t2i_recall_at_1"].by_seed
    half = 12.7062 * (0.4 / 2**0.5) / 2**0.5
    assert (seeds.low, seeds.high) == pytest.approx((-0.2 - half, -0.2 + half))
    same = found(made)["negclip"]["hard_positives/brittleness"].by_seed  # 0.5 with either seed
    assert (same.low, same.high) == pytest.approx((0.5, 0.5))


def test_only_seeds_of_both_count(tmp_path):
    """And of a single one there is no interval over seeds."""
    cells = [fake_runs.cell("negclip", seed=s) for s in (0, 1, 2)] + [fake_runs.cell("clic", seed=s) for s in (1, 2)]
    made = built(tmp_path / "two", cells)
    assert made.contrasts[0].rows[0].seeds == 2
    # swap of negclip: 0.7, 0.9, 0.85, of clic 0.75 with every seed
    swap = found(made)["negclip"]["sugarcrepe/swap"]
    assert (swap.change, swap.seeds) == (pytest.approx((0.9 + 0.85) / 2 - 0.75), 2)
    single = found(built(tmp_path / "one", cells[:4]))["negclip"]["sugarcrepe/swap"]
    assert (single.change, single.seeds, single.by_seed) == (pytest.approx(0.9 - 0.75), 1, None)
    (row,) = built(tmp_path / "none", [cells[0], *cells[3:]]).contrasts[0].rows
    assert row.seeds == 0 and set(row.statistics) == {None}


def test_rows_are_all_others_of_each_table(tmp_path):
    cells = [fake_runs.cell(m, data=d) for d in ("scenes", "coco") for m in fake_runs.METHODS]
    made = built(tmp_path, [cell for cell in cells if cell.place != "clic/vit-coco-0"])
    assert [[row.method for row in group.rows] for group in made.contrasts] == [["pretrained", "negclip"], []]
    assert "There is no run of clic" not in page.render(made)
    assert built(tmp_path, cells, against="").contrasts == ()


def test_the_pretrained_row_is_the_other_table_s_turned_round(made):
    """The same pairs of items: clic - pretrained and pretrained - clic."""
    turned = {c.name: e for c, e in zip(made.main[0].columns, made.main[0].rows[2].statistics, strict=True)}
    for name, ours in found(made)["pretrained"].items():
        assert ours.change == pytest.approx(-turned[name].change), name
        assert (ours.difference is None) == (turned[name].difference is None)
        assert not ours.difference or ours.difference.items == turned[name].difference.items


def test_an_interval_is_a_function_of_names_alone(made, tmp_path):
    """Further methods and columns change none."""
    again = found(built(tmp_path / "fewer", fake_runs.cells(("negclip", "clic"))))
    assert again["negclip"] == found(made)["negclip"]


def test_page_markdown_csv_and_latex_say_the_same(made):
    text = page.render(made)
    section = text.partition('<h2 id="reference">Difference to clic</h2>')[2].partition("<h2 ")[0]
    row = section.partition('<tr data-name="negclip">')[2].partition("</tr>")[0]
    assert '<a href="#reference">To clic</a>' in text
    ours = found(made)["negclip"]["hard_positives/brittleness"]
    between = f"[+{100 * ours.difference.low:.1f}, +{100 * ours.difference.high:.1f}]"
    assert f'<span class="value">+50.0</span><span class="mark">▼</span><small>{between}</small>' in row
    assert "4 item pairs; over 2 seeds [+50.0, +50.0] by Student" in row
    assert f"+50.0 {between} ▼" in reference_table.markdown(made.contrasts, "clic")
    tex = reference_table.latex(made.contrasts, "clic")
    assert rf"+50.0$^\ast$ {{\scriptsize {{}}{between}}}" in tex and r"\caption{vit / scenes: difference to clic" in tex
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 1
    lines = list(csv.DictReader(reference_table.table_csv(made.contrasts, "clic").splitlines()))
    (line,) = [x for x in lines if (x["method"], x["metric"]) == ("negclip", "brittleness")]
    assert (line["reference"], line["better"], line["seeds"], line["difference"]) == ("clic", "lower", "2", "0.500000")
    assert (line["low"], line["items"], line["verdict"]) == (f"{ours.difference.low:.6f}", "4", "worse")
    assert (line["seed_low"], line["seed_high"]) == ("0.500000", "0.500000")
    assert {x["method"] for x in lines} == {"pretrained", "negclip"}


def test_a_number_without_items_has_no_interval(made):
    """Scores keep none, and a missing number is a dash."""
    score = Column("hard_positives", "mean_score", score=True)
    statistic = found(made)["negclip"]["hard_positives/mean_score"]
    group = Group("a_b", "c", (score, score), (Row("x_y", (), (statistic, None)),))
    assert "| x_y | 0 | 0.000 | – |" in reference_table.markdown([group], "clic")
    assert r"x\_y & 0.000 & -- \\" in reference_table.latex([group], "clic")
    assert reference_table.table_csv([group], "clic").count("\n") == 2


def test_without_a_reference_nothing_is_said(tmp_path):
    made = built(tmp_path, fake_runs.cells(), against="")
    assert 'id="reference"' not in page.render(made) and "#reference" not in page.render(made)
    assert reference_table.markdown(made.contrasts, "") == reference_table.latex(made.contrasts, "") == ""
    assert reference_table.table_csv(made.contrasts, "").splitlines() == [",".join(reference_table.FIELDS)]


def test_the_files_hold_it(made, tmp_path):
    report_command.write(made, tmp_path / "reports")
    assert "## Difference to clic: vit / scenes" in (tmp_path / "reports" / "report.md").read_text()
    assert "difference to clic" in (tmp_path / "reports" / "report.tex").read_text()
    assert len((tmp_path / "reports" / "reference.csv").read_text().splitlines()) > 10


def test_the_statistic_of_runs_without_the_column_is_none(tmp_path):
    runs, _ = collect(fake_runs.cells(), fake_runs.BENCHMARKS, fake_runs.make(tmp_path))
    mine, base = ([r for r in runs if r.cell.method == m] for m in ("negclip", "clic"))
    assert reference.statistic(Column("sugarcrepe", "no"), mine, base, DRAWS) is None
    assert tables.verdict(None, Column("sugarcrepe", "swap")) == 0

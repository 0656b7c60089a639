"""WiSE-FT lines in the report: read from the runs' files, means over seeds, drawn from the pretrained model on."""

import csv
import re

import pytest

from compclip.base.files import write_json
from compclip.report import report_page, trajectories
from compclip.report.run_details import collect_runs
from compclip.runs.run_folder import Published
from tests import fake_runs
from tests.report import made_page
from tests.report.made_page import summary_metrics as metrics

CELLS = [c for c in fake_runs.cells() if c.method == "negclip"]


@pytest.fixture
def runs(tmp_path):
    """Run directories; negclip's two seeds have lines over three alphas."""
    root = fake_runs.make(tmp_path)
    for cell, top in zip(CELLS, (0.8, 0.6), strict=True):
        points = [{"alpha": a, "metrics": metrics(0.4 + a * (top - 0.4), 0.8 - 0.2 * a)} for a in (0.0, 0.5, 1.0)]
        write_json(Published(root, cell).line, {"cell": cell.name, "points": points})
    return root


def report(runs):
    """The whole report, and its first group."""
    collected, missing_results = collect_runs(fake_runs.cells(), fake_runs.BENCHMARKS, runs)
    lines, _ = trajectories.collect_lines(CELLS, runs)
    columns = ["sugarcrepe/swap", "retrieval/i2t_recall_at_1", "retrieval/t2i_recall_at_1"]
    page = made_page.build_page(collected, fake_runs.BENCHMARKS, columns, missing_results, [], lines=lines)
    return page, page.tables.main[0]


def test_means_over_seeds_by_hand(runs):
    """Half way, seed 0 has 60 % and seed 1 50 % composition: 55; I2T falls from 80 to 60."""
    page, group = report(runs)
    columns = group.summaries
    lines = trajectories.build_trajectories(group, page.results.lines, columns["I2T"], columns["Comp"])
    assert [t.method for t in lines] == ["negclip"]
    assert lines[0].colour == [row.method for row in group.rows].index("negclip")
    assert [(p.x, p.y) for p in lines[0].points] == [pytest.approx(xy) for xy in ((80, 40), (70, 55), (60, 70))]


def test_the_plot_begins_at_the_pretrained_model_and_ends_at_the_method(runs):
    """A line of three points, one small dot with its alpha, one named end, one diamond, in the page."""
    page, _ = report(runs)
    html = report_page.render_page(page)
    svg = re.search(r'<svg[^>]*aria-label="WiSE-FT: compositionality against I2T".*?</svg>', html, re.S).group()
    titles = re.findall(r"<title>(.*?)</title>", svg)
    assert titles[0] == "negclip, α 0.5: 70.0 / 55.0"
    assert [title.partition(":")[0] for title in titles[1:]] == ["negclip", "pretrained"]
    assert re.findall(r"<text [^>]*>([a-z]+)</text>", svg) == ["negclip", "pretrained"]
    assert '<details id="wise_ft">' in html


def test_the_table_has_every_run_and_alpha(runs):
    """One line each, the summary columns in percent."""
    page, _ = report(runs)
    rows = list(csv.DictReader(trajectories.format_lines_csv(page.tables.main, page.results.lines).splitlines()))
    assert [(r["run"], r["alpha"]) for r in rows] == [(c.name, a) for c in CELLS for a in ("0", "0.5", "1")]
    assert (rows[4]["Comp"], rows[4]["I2T"], rows[4]["T2I"]) == ("50.0000", "70.0000", "50.0000")


def test_a_benchmark_that_was_left_out(runs):
    """A line without a benchmark of the column is not drawn, rather than at a mean over fewer."""
    write_json(
        Published(runs, CELLS[0]).line, {"points": [{"alpha": a, "metrics": {"sugarcrepe/swap": 0.5}} for a in (0, 1)]}
    )
    page, group = report(runs)
    columns = group.summaries
    assert trajectories.build_trajectories(group, page.results.lines, columns["I2T"], columns["Comp"]) == []

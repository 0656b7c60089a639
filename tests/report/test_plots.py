"""Axes, curves and labels of the plots."""

import re

import numpy as np
import pytest
from matplotlib.text import Text

from compclip.report import report_figures
from compclip.report.run_details import collect_runs
from compclip.report.svg_plots import SvgPlot
from tests import fake_runs


def texts(svg):
    return re.findall(r"<text [^>]*>([^<]*)</text>", svg)


@pytest.fixture
def clic(tmp_path):
    return collect_runs(fake_runs.cells(("clic",)), fake_runs.BENCHMARKS, fake_runs.make(tmp_path))[0]


def test_terms_leave_out_what_is_no_loss(clic):
    assert report_figures.list_terms(clic) == ["clip", "local"]


def test_series_of_both_seeds(clic):
    steps, values = report_figures.collect_series(clic, "clip")
    assert steps == [10, 20, 30]
    assert values.tolist() == [[2.5, 2.0, 1.5], [3.5, 3.0, 2.5]]


def test_thinning_takes_means_of_neighbours():
    at, values = report_figures.average_neighbours([1, 2, 3, 4], np.array([[1.0, 3.0, 5.0, 9.0]]), points=2)
    assert at.tolist() == [1.5, 3.5]
    assert values.tolist() == [[2.0, 7.0]]


def test_loss_csv_has_the_mean_over_seeds(clic):
    assert report_figures.format_loss_csv(clic).splitlines() == [
        "step,loss,clip,local",
        "10,3.5,3,0.5",
        "20,3,2.5,0.5",
        "30,2.5,2,0.5",
    ]


def test_each_term_has_a_line_and_a_band(clic):
    svg = report_figures.draw_loss(clic, "Loss of clic")
    assert svg.count("fill-opacity:0.16") == 3
    assert [text for text in texts(svg) if text.isalpha()] == ["step", "total", "clip", "local"]


def test_steps_of_two_kinds_have_no_line_through_both_totals(clic):
    """Plain steps of one term, and one composite step at the end: its total of 1.6 is no leap of the others' 0.7."""
    for run in clic:
        run.curve[:] = [{"step": step, "loss": 0.7, "clip": 0.7} for step in (10, 20, 30)]
        run.curve.append({"step": 35, "loss": 1.6, "cont": 0.9, "s_neg": 0.7})
    totals = report_figures.collect_totals(clic, ["clip", "cont", "s_neg"])
    assert {name: (steps, values.tolist()) for name, (steps, values) in totals.items()} == {
        "total of cont, s_neg": ([35], [[1.6], [1.6]])
    }
    svg = report_figures.draw_loss(clic, "Loss of clic")
    assert texts(svg)[-4:] == ["total of cont, s_neg", "clip", "cont", "s_neg"]
    assert svg.count("fill-opacity:0.16") == 4


@pytest.mark.parametrize("length", [1, 8])
def test_names_of_close_marks_do_not_overlap(length):
    """Measured as matplotlib writes them, inside the figure; those of a line keep clear of it."""
    plot = SvgPlot("close", "x", "y")
    for index in range(12):
        plot.mark(60 + 0.7 * (index % 4), 60 + 0.9 * (index // 4), "", f"{'e' * length}{index}")
    plot.line([(58, 61), (60, 61)])
    plot.to_svg()
    boxes = [Text.get_window_extent(text) for text in plot.axes.texts]  # without the lines that lead to marks
    assert len(boxes) == 12
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    figure = plot.figure.bbox
    assert all(box.x0 >= 0 and box.x1 <= figure.x1 for box in boxes)


def test_a_mark_says_what_it_is_and_takes_the_page_s_colours():
    points = [report_figures.TradeoffPoint("a<b", 1, 2), report_figures.TradeoffPoint("pretrained", 3, 4)]
    svg = report_figures.draw_tradeoff(points, "ZS")
    assert re.findall(r"<title>(.*?)</title>", svg) == ["a&lt;b: 1.0 / 2.0", "pretrained: 3.0 / 4.0"]
    assert "var(--soft)" in svg and not re.search(r"#[0-9a-f]{6}\b", svg)
    assert {"a&lt;b", "pretrained", "ZS, %", "Comp, %"} <= set(texts(svg))


def test_two_figures_of_a_page_share_no_id():
    points = [report_figures.TradeoffPoint("pretrained", 3, 4)]
    first, second = (report_figures.draw_tradeoff(points, name) for name in ("ZS", "I2T"))
    ids = [set(re.findall(r' id="([^"]+)"', svg)) for svg in (first, second)]
    assert ids[0] and not ids[0] & ids[1]


@pytest.mark.parametrize("name", ["$x_1$", "a\ud800b", "<img src=x>"])
def test_a_name_stays_text(name):
    svg = report_figures.draw_tradeoff([report_figures.TradeoffPoint(name, 1, 2)], "ZS")
    assert name.encode("utf-8", "replace").decode().replace("<", "&lt;").replace(">", "&gt;") in texts(svg)

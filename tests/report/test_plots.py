"""Axes, curves and labels of the plots."""

import re

import pytest
from matplotlib.text import Text

from compclip.report import report_figures
from compclip.report.svg_plots import SvgPlot


def texts(svg):
    return re.findall(r"<text [^>]*>([^<]*)</text>", svg)


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


def test_no_axis_passes_0_or_100():
    """Also where intervals reach further."""
    points = [report_figures.TradeoffPoint("a", 99.0, 2.0, 6.0, 6.0), report_figures.TradeoffPoint("pretrained", 94, 1)]
    numbers = [text for text in texts(report_figures.draw_tradeoff(points, "ZS")) if text[-1].isdigit()]
    ticks = [float(text.replace("−", "-")) for text in numbers]
    assert len(ticks) > 4 and min(ticks) >= 0 and max(ticks) <= 100

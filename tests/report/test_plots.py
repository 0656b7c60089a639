"""Axes, curves and labels of the plots."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.report import report_figures
from compclip.report.run_details import collect_runs
from tests import fake_runs


@pytest.fixture
def clic(tmp_path):
    return collect_runs(fake_runs.cells(("clic",)), fake_runs.BENCHMARKS, fake_runs.make(tmp_path))[0]


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.0, 1.0], (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        ([61, 84], (60, 65, 70, 75, 80, 85)),
        ([3.0, 3.0], (2.4, 2.6, 2.8, 3.0, 3.2, 3.4, 3.6)),
    ],
)
def test_ticks_are_round_and_enclose_the_values(values, ticks):
    assert report_figures.linear_axis(values, 0, 100).ticks == pytest.approx(ticks)


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=20))
def test_an_axis_holds_all_its_values_within_its_pixels(values):
    axis = report_figures.linear_axis(values, 10, 110)
    assert 2 <= len(axis.ticks) <= 9
    assert all(10 - 0.1 <= axis(v) <= 110 + 0.1 for v in values)


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
    assert svg.count('class="line') == svg.count('class="band') == 3
    assert re.findall(r'class="label"[^>]*>(\w+)<', svg) == ["total", "clip", "local"]


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
    assert svg.count('class="line') == 1 and svg.count("<circle") == 3
    assert re.findall(r'class="label"[^>]*>([^<]+)<', svg) == ["total of cont, s_neg", "clip", "cont", "s_neg"]


def test_labels_of_close_points_do_not_overlap():
    points = [report_figures.TradeoffPoint(f"method_{i}", 50 + 0.1 * i, 60 + 0.05 * i) for i in range(5)]
    points.append(report_figures.TradeoffPoint("far", 70, 80))
    svg = report_figures.draw_tradeoff(points, "ZS")
    places = re.findall(r'class="name" x="([\d.]+)" y="([\d.]+)">([^<]+)<', svg)
    boxes = [(float(x), float(y) - 8, float(x) + 6.6 * len(name), float(y) + 2) for x, y, name in places]
    assert len(boxes) == 6
    assert not any(report_figures._boxes_overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_a_crowd_has_numbers_that_do_not_overlap():
    """More rows than there is room for names: every point keeps a label of its own, inside the figure."""
    points = [
        report_figures.TradeoffPoint(f"method.variant_{i}", 60 + 0.7 * (i % 6), 60 + 0.9 * (i // 6)) for i in range(27)
    ]
    points.append(report_figures.TradeoffPoint("pretrained", 20, 40))
    short = report_figures.number_methods([p.name for p in points])
    svg = report_figures.draw_tradeoff(points, "ZS", short)
    places = re.findall(r'class="name" x="([\d.]+)" y="([\d.]+)">([^<]+)<', svg)
    assert [name for *_, name in places] == [str(i) for i in range(1, 29)]
    assert all(float(x) > 58 and float(x) + 6.6 * len(name) < 405 for x, _, name in places)
    boxes = [(float(x), float(y) - 8, float(x) + 6.6 * len(name), float(y) + 2) for x, y, name in places]
    assert not any(report_figures._boxes_overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i])

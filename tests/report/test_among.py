"""A run among published models: percentiles and neighbours that a person can check."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.report import published_numbers, report_page
from compclip.report.published_numbers import PublishedModel
from compclip.report.run_details import collect_runs
from tests import fake_runs
from tests.conftest import ROOT
from tests.report import made_page

FOLDER = ROOT / "experiments" / "published"
MODELS = published_numbers.read_models(FOLDER / published_numbers.MODELS)


def models(*values: float) -> list[PublishedModel]:
    return [PublishedModel(f"m{i}", {"a/b": value}) for i, value in enumerate(values)]


@pytest.mark.parametrize(
    "value,percentile,above,below",
    [
        (15, 25, "m1 (20.0)", "m0 (10.0)"),
        (5, 0, "m0 (10.0)", ""),
        (99, 100, "", "m3 (40.0)"),
        (20, 37.5, "m2 (30.0)", "m0 (10.0)"),  # one below, one the same
    ],
)
def test_percentiles_by_hand(value, percentile, above, below):
    """Four models; equals count half, and are no neighbours."""
    model_percentile = published_numbers.compute_percentile("a/b", value, models(10, 20, 30, 40))
    assert model_percentile == published_numbers.ModelPercentile("a/b", value, percentile, 4, above, below)
    assert published_numbers.compute_percentile("a/c", value, models(10)) is None


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0, 100), st.floats(0, 100))
def test_percentiles_rise_with_the_value(values, first_value, second_value):
    """And lie between 0 and 100."""
    low, high = (
        published_numbers.compute_percentile("a/b", value, models(*values)).percentile
        for value in sorted((first_value, second_value))
    )
    assert 0 <= low <= high <= 100


def test_the_202_models_agree_with_the_tables_that_repeat_them():
    """Those whose weights FSC-CLIP scored as well: its numbers are theirs to 0.3 points, ImageCoDe and ZS among them."""
    assert len(MODELS) == 202
    model_values = {m.name: m.values for m in MODELS}
    names = {"released.ce_clip": "CE-CLIP, coco-ft", "released.negclip": "NegCLIP, coco-ft",
             "released.dac_llm": "DAC-LLM, cc3m-ft"}  # fmt: skip
    checked = 0
    for n in published_numbers.read_numbers(FOLDER):
        if n.paper == "FSC-CLIP" and n.table in ("main", "retrieval") and n.method in names:
            published_value = model_values[names[n.method]].get(n.column)
            if published_value is not None:
                assert published_value == pytest.approx(float(n.value), abs=0.3), n
                checked += 1
    assert checked > 60


def test_the_page_shows_every_method_among_them(tmp_path):
    """swap: pretrained 45, negclip 80, clic 75 percent, among models of 50 and 78; names are escaped."""
    models = [PublishedModel("<b>", {"sugarcrepe/swap": 50.0}), PublishedModel("other", {"sugarcrepe/swap": 78.0})]
    runs = collect_runs(fake_runs.cells(), fake_runs.BENCHMARKS, fake_runs.make(tmp_path / "runs"))[0]
    page = made_page.build_page(runs, fake_runs.BENCHMARKS, None, (), (), lambda run: {}, models=models,
                      official=fake_runs.OFFICIAL)  # fmt: skip
    percentiles = {s.method: s.percentiles for s in report_page.rank_among_models(page)}
    assert {m: p[0].percentile for m, p in percentiles.items()} == {"pretrained": 0, "negclip": 100, "clic": 50}
    assert percentiles["clic"] == (
        published_numbers.ModelPercentile(
            "sugarcrepe/swap", pytest.approx(75.0), 50.0, 2, "other (78.0)", "<b> (50.0)"
        ),
    )
    html = report_page.render_page(page)
    assert "median percentile 50" in html and "&lt;b&gt; (50.0)" in html and "<b> (50.0)" not in html
    without = report_page.render_page(made_page.build_page(runs, fake_runs.BENCHMARKS, None, (), (), lambda run: {}))
    assert 'id="among"' not in without


def test_the_median_of_percentiles():
    """The middle one, or the mean of the two middle ones."""
    percentiles = [published_numbers.ModelPercentile("c", 1.0, p, 2, "", "") for p in (10.0, 90.0, 30.0, 40.0)]
    assert published_numbers.Standing("g", "m", tuple(percentiles)).median == 35
    assert published_numbers.Standing("g", "m", tuple(percentiles[:3])).median == 30

"""`compclip list` and groups of benchmarks."""

from pathlib import Path

import pytest

from compclip.base import plugins
from compclip.config import benchmark_groups, listing, read

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def params():
    return read.load_params(ROOT / "params.yaml")


@pytest.mark.parametrize("kind", listing.KINDS)
def test_each_kind_has_names_and_lines(kind, params, monkeypatch):
    """The overview has the same names; every line says something. Of the grids, which are read whole, three are."""
    monkeypatch.chdir(ROOT)
    names = listing.list_names(kind, params)
    asked_for = names[:3] if kind == "grids" else ()
    listed = listing.list_kind(kind, asked_for, params)
    assert [item.name for item in listed] == (asked_for or names)
    assert len(listed) >= 1 and all(item.summary for item in listed)


def test_a_method_with_its_parameters(params):
    (clove,) = listing.list_kind("methods", ["clove"], params)
    assert clove.parameters == {"replace": "clove", "caption": "full"}
    assert clove.summary.startswith("CLoVe: ")
    assert listing.format_listed(clove, 8).splitlines()[1].strip() == 'replace="clove"  caption="full"'


def test_the_overview(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert listing.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == list(listing.KINDS)


def test_every_module_is_of_a_group():
    """Seven measure retrieval of some kind, one classification."""
    modules = {name: plugins.load_plugin(plugins.BENCHMARKS, name) for name in plugins.list_plugins(plugins.BENCHMARKS)}
    groups = {name: getattr(module, "BENCHMARK_GROUP", benchmark_groups.DEFAULT) for name, module in modules.items()}
    assert {name for name, group in groups.items() if group == "long"} == {
        "dci", "docci", "imageinwords", "sharegpt4v", "urban1k",
    }  # fmt: skip
    assert {name for name, group in groups.items() if group == "retrieval"} == {"coco_counterfactuals", "retrieval"}
    assert {name for name, group in groups.items() if group == "zeroshot"} == {"zeroshot"}


def test_a_group_stands_for_its_benchmarks():
    """In evaluate.benchmarks and wise_ft.benchmarks, each once, in the order of params.yaml."""
    overrides = ["evaluate.benchmarks=[winoground,comp,zeroshot]", "wise_ft.benchmarks=[retrieval]"]
    params = read.load_params(ROOT / "params.yaml", [*overrides, "report.columns=[]"], together=True)
    expected = ["winoground", "sugarcrepe", "sugarcrepe_pp", "hard_positives", "zeroshot_symbols", "zeroshot_colours"]
    assert params.evaluate.benchmarks == expected
    assert params.wise_ft.benchmarks == ["retrieval"]

"""`compclip list` and groups of benchmarks."""

import shutil

import pytest

from compclip.base import plugins
from compclip.config import columns, listing, read
from tests.shipped_files import SHIPPED_PARAMS


@pytest.fixture
def params():
    return read.load_params(SHIPPED_PARAMS)


@pytest.fixture
def project(tmp_path, monkeypatch) -> None:
    """A project with two grids, which are read whole, as the current folder."""
    for name in ("params.yaml", "experiments/grids/one.yaml", "experiments/grids/two.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SHIPPED_PARAMS, tmp_path / name)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", listing.KINDS)
def test_each_kind_has_names_and_lines(kind, params, project):
    """The overview has the same names; every line says something."""
    names = listing.list_names(kind, params)
    listed = listing.list_kind(kind, (), params)
    assert [item.name for item in listed] == names
    assert len(listed) >= 1 and all(item.summary for item in listed)


def test_a_method_with_its_parameters(params):
    (clove,) = listing.list_kind("methods", ["clove"], params)
    assert clove.parameters == {"caption": "full"}
    assert clove.summary.startswith("CLoVe: ")
    assert listing.format_listed(clove, 8).splitlines()[1].strip() == 'caption="full"'


def test_the_overview(project, capsys):
    assert listing.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == list(listing.KINDS)


def test_every_module_is_of_a_group():
    """Seven measure retrieval of some kind, one classification."""
    modules = {name: plugins.load_plugin(plugins.BENCHMARKS, name) for name in plugins.list_plugins(plugins.BENCHMARKS)}
    groups = {name: getattr(module, "BENCHMARK_GROUP", columns.DEFAULT) for name, module in modules.items()}
    expected = dict.fromkeys(("dci", "docci", "imageinwords", "sharegpt4v", "urban1k"), "long")
    expected |= {"coco_counterfactuals": "retrieval", "retrieval": "retrieval", "zeroshot": "zeroshot"}
    assert {name: group for name, group in groups.items() if group != columns.DEFAULT} == expected


def test_a_group_stands_for_its_benchmarks():
    """In evaluate.benchmarks and wise_ft.benchmarks, each once, in the order of params.yaml."""
    overrides = ["evaluate.benchmarks=[winoground,comp,zeroshot]", "wise_ft.benchmarks=[retrieval]"]
    params = read.load_params(SHIPPED_PARAMS, [*overrides, "report.columns=[]"], together=True)
    expected = ["winoground", "sugarcrepe", "sugarcrepe_pp", "hard_positives", "zeroshot_symbols", "zeroshot_colours"]
    assert params.evaluate.benchmarks == expected
    assert params.wise_ft.benchmarks == ["retrieval"]

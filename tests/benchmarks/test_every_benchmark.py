"""What every benchmark module must do, ours and other packages'."""

import ast
import inspect
import re
from types import SimpleNamespace

import numpy as np
import pytest

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.evaluate.benchmark import Benchmark
from compclip.evaluate.benchmark_module import load_module
from compclip.runs.item_outcomes import COMPOSITION, KINDS, Items


@pytest.fixture(params=plugins.list_plugins(plugins.BENCHMARKS))
def module(request):
    return plugins.load_plugin(plugins.BENCHMARKS, request.param)


def benchmark_calls(module):
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Call)]
    return [call for call in calls if getattr(call.func, "id", "") == "Benchmark"]


def test_it_declares_what_it_measures(module):
    """With a kind that the report knows."""
    (call,) = benchmark_calls(module)
    (kind,) = [word.value.id for word in call.keywords if word.arg == "kind"]
    assert getattr(module, kind) in KINDS


def test_it_is_loaded_from_a_path_with_pictures_and_a_split(module):
    """The three arguments that params.yaml gives, and its own options where it has any; these check themselves."""
    options_parameter = ["options"] if hasattr(module, "Config") else []
    assert list(inspect.signature(module.load).parameters) == ["path", "images", "split", *options_parameter]
    if options_parameter:
        assert module.Config.__dataclass_params__.frozen and module.Config() is not None
    assert inspect.getdoc(module) and inspect.getdoc(module.load)


def test_it_says_where_it_is_from_and_what_was_compared_with_the_authors_code(module):
    """So that nobody takes for checked what was not."""
    documentation = " ".join(inspect.getdoc(module).split())
    for word in ("Source: ", "Compared", "Not compared: "):
        assert word in documentation, f"{module.__name__}: its first lines lack {word!r}; see CONTRIBUTING.md"
    assert re.search("MIT|CC BY|Apache|BSD|[Ll]icence", documentation), f"{module.__name__}: names no licence"


def test_it_declares_its_metrics(module):
    """Each once, its means and what they are made of among them."""
    assert module.METRICS and len(set(module.METRICS)) == len(module.METRICS)
    for mean, members in getattr(module, "MEANS", {}).items():
        assert {mean, *members} <= set(module.METRICS)


@pytest.mark.parametrize(
    ("hooks", "fault"),
    [({"HEADLINES": ("a",)}, "unknown hook 'HEADLINES'; did you mean 'HEADLINE'"),
     ({"HEADLINE": ("a",), "config": None}, "unknown hook 'config'; did you mean 'Config'"),
     ({"HEADLINE": ("c",)}, "HEADLINE: unknown metric 'c'")],
)  # fmt: skip
def test_a_misspelt_hook_and_an_unknown_headline_are_refused(monkeypatch, hooks, fault):
    module = SimpleNamespace(METRICS=("a", "b"), load=lambda path, images, split: None, **hooks)
    monkeypatch.setattr(plugins, "load_plugin", lambda *_: module)
    with pytest.raises(UserError, match=f"benchmark 'x': {fault}"):
        load_module("x")


def test_a_headline_that_was_not_measured_is_none():
    """With some subsets left out there is no mean of them all, and no other number stands for it."""
    with_headline = benchmark(kind=COMPOSITION, headline=("a", "b"))
    assert with_headline.declared(["a", "b", "a/rare"])["headline"] == ["a", "b"]
    assert with_headline.declared(["a"])["headline"] == []


def benchmark(**declarations):
    """A benchmark of two metrics, one of them in a group."""
    items = {"a": Items(("1", "2"), np.array([1.0, 0.0]), "all"), "b": Items(("1",), np.array([0.5]))}
    groups = {"all": {"rare": frozenset({"1"})}}
    return Benchmark((), (), lambda records, embeddings: items, groups=groups, **declarations)


def test_a_kind_must_be_known():
    with pytest.raises(UserError, match="unknown kind 'composing'; did you mean 'composition'"):
        benchmark(kind="composing")


def test_what_is_declared_of_a_metric_holds_for_its_groups():
    result = benchmark(kind=COMPOSITION, lower=("a",), scores=("b",)).declared(["a", "a/rare", "b"])
    assert result == {"kind": "composition", "lower": ["a", "a/rare"], "scores": ["b"], "headline": []}

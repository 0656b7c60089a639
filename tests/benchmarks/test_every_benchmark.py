"""What every benchmark module must do, ours and other packages'."""

from __future__ import annotations

import ast
import inspect
import re

import numpy as np
import pytest

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.benchmarks import hard_positives
from compclip.evaluate.benchmark import Benchmark
from compclip.runs.items import COMPOSITION, KINDS, Items

NAMES = plugins.names(plugins.BENCHMARKS)


def made(module):
    """The calls of Benchmark(...) in a module."""
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Call)]
    return [call for call in calls if getattr(call.func, "id", "") == "Benchmark"]


@pytest.mark.parametrize("name", NAMES)
def test_it_declares_what_it_measures(name):
    """With a kind that the report knows."""
    module = plugins.find(plugins.BENCHMARKS, name)
    (call,) = made(module)
    (kind,) = [word.value.id for word in call.keywords if word.arg == "kind"]
    assert getattr(module, kind) in KINDS


@pytest.mark.parametrize("name", NAMES)
def test_it_is_loaded_from_a_path_with_pictures_and_a_split(name):
    """The three arguments that params.yaml gives, and its own options where it has any; these check themselves."""
    module = plugins.find(plugins.BENCHMARKS, name)
    own = ["options"] if hasattr(module, "Config") else []
    assert list(inspect.signature(module.load).parameters) == ["path", "images", "split", *own]
    if own:
        assert module.Config.__dataclass_params__.frozen and module.Config() is not None
    assert inspect.getdoc(module) and inspect.getdoc(module.load)


@pytest.mark.parametrize("name", NAMES)
def test_it_says_where_it_is_from_and_what_was_compared_with_the_authors_code(name):
    """So that nobody takes for checked what was not."""
    told = " ".join(inspect.getdoc(plugins.find(plugins.BENCHMARKS, name)).split())
    assert "Source: " in told and "Compared" in told and "Not compared: " in told
    assert re.search("MIT|CC BY|Apache|BSD|[Ll]icence", told)


@pytest.mark.parametrize("name", NAMES)
def test_it_declares_its_metrics(name):
    """Each once, its means and what they are made of among them."""
    module = plugins.find(plugins.BENCHMARKS, name)
    assert module.METRICS and len(set(module.METRICS)) == len(module.METRICS)
    for mean, members in getattr(module, "MEANS", {}).items():
        assert {mean, *members} <= set(module.METRICS)


def benchmark(**told):
    """A benchmark of two metrics, one of them in a group."""
    items = {"a": Items(("1", "2"), np.array([1.0, 0.0]), "all"), "b": Items(("1",), np.array([0.5]))}
    return Benchmark((), (), lambda records, embeddings: items, groups={"all": {"rare": frozenset({"1"})}}, **told)


def test_a_kind_must_be_given_and_known():
    with pytest.raises(TypeError, match="kind"):
        benchmark()
    with pytest.raises(UserError, match="unknown kind 'composing'; did you mean 'composition'"):
        benchmark(kind="composing")


def test_what_is_declared_of_a_metric_holds_for_its_groups():
    found = benchmark(kind=COMPOSITION, lower=("a",), scores=("b",)).declared(["a", "a/rare", "b"])
    assert found == {"kind": "composition", "lower": ["a", "a/rare"], "scores": ["b"]}


def test_hard_positives_say_which_of_their_metrics_are_lower_and_which_are_scores():
    """Brittleness and gap of every kind, and the mean scores; the rest are shares of which more is better."""
    assert set(hard_positives.LOWER) >= {"swap_gap", "replace_brittleness", "replace_relations_gap"}
    assert set(hard_positives.SCORES) >= {"swap_mean_score", "replace_mean_score"}

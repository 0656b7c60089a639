"""Check the names of the report's columns before any file is read, against the metrics that benchmarks declare.

A benchmark's module lists its possible metrics in METRICS; a `*` in a name stands for a part that depends on its files.
Whether parts of a metric (`swap/unseen_pairs`) and subsets exist is known only after reading the files (`list_absent`).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from compclip.base import plugins
from compclip.base.errors import UserError, unknown
from compclip.config.grid import method_config

if TYPE_CHECKING:
    from compclip.config.sections import BenchmarkSection, Params


MEAN_OF_WAYS = re.compile(r"mean_(recall_at_\d+)")  # the mean over both directions of retrieval
WHERE = "report.columns"
SUMMARY = "summary"  # in the place of a benchmark's name: means over benchmarks
SUMMARIES = ("Comp", "ZS", "I2T", "T2I", "General")


def check_columns(params: Params) -> None:
    """Raise UserError if a column of the report or of `train.choose` is not declared by a benchmark of `evaluate`."""
    for name in params.report.columns:
        _check_column(params, name, WHERE)
    for method in params.grid.methods:
        for data in params.grid.data:
            _, train = method_config(params, method, data)
            if train.choose:
                _check_choice(params, train.choose, f"methods.{method}.train.choose")


def _check_choice(params: Params, name: str, where: str) -> None:
    benchmark, _, metric = name.partition("/")
    if benchmark == SUMMARY and metric not in SUMMARIES:
        raise unknown("summary", metric, SUMMARIES, f"{where}: {name!r}")
    validated = [other for other, section in params.benchmarks.items() if section.validation == benchmark]
    if validated and validated[0] in params.evaluate.benchmarks:
        raise UserError(f"{where}: {name!r}: is the validation set of {validated[0]}; name {validated[0]}/{metric}")
    if benchmark != SUMMARY:
        _check_column(params, name, where)


def _check_column(params: Params, name: str, where: str) -> None:
    evaluated = params.evaluate.benchmarks
    benchmark, _, metric = name.partition("/")
    is_single = benchmark in evaluated  # a column of a benchmark, or the mean over two or more
    sources = [benchmark] if is_single else [b for b in evaluated if b.startswith(f"{benchmark}_")]
    if not sources:
        raise unknown("benchmark", benchmark, evaluated, f"{where}: {name!r}, in evaluate.benchmarks")
    count = 0
    declared: set[str] = set()
    for source in sources:
        metrics = plugins.load_plugin(plugins.BENCHMARKS, params.benchmarks[source].benchmark or source).METRICS
        count += _has(metric.partition("/")[0], metrics)
        declared.update(f"{source}/{declared_metric}" for declared_metric in metrics)
    if count < (1 if is_single else 2):
        raise unknown("column", name, declared, where)


def _has(metric: str, declared: Collection[str]) -> bool:
    """Return whether a metric is declared; for a mean of retrieval, whether both directions are."""
    names = _mean_parts(metric) or (metric,)
    matched: set[str] = set()
    for pattern in declared:
        matched.update(fnmatch.filter(names, pattern))
    return metric in declared or matched.issuperset(names)


def _mean_parts(metric: str) -> tuple[str, ...]:
    ways = MEAN_OF_WAYS.fullmatch(metric)
    return (f"i2t_{ways[1]}", f"t2i_{ways[1]}") if ways else ()


def select_metrics(params: Params, benchmark: str) -> list[str]:
    """Return the metrics that the report's columns name of one benchmark."""
    if benchmark not in params.evaluate.benchmarks:
        return []
    prefix = f"{benchmark}/"
    return [name.removeprefix(prefix) for name in params.report.columns if name.startswith(prefix)]


def list_absent(names: Iterable[str], metrics: Collection[str]) -> list[str]:
    """Return the names that are neither metrics of a benchmark nor means over both directions of its metrics."""
    absent = []
    for name in names:
        metrics_of_mean = _mean_parts(name) or (name,)
        if name not in metrics and not set(metrics_of_mean).issubset(metrics):
            absent.append(name)
    return absent


# --- groups of benchmarks -------------------------------------------------------------------------------------------
# Wherever benchmarks are named, the name of a group stands for all its benchmarks.


GROUPS = {
    "comp": "composition: a caption against wrong ones, pictures against each other",
    "zeroshot": "zero-shot classification",
    "retrieval": "retrieval among pictures and short captions",
    "long": "retrieval among pictures and long descriptions",
}
DEFAULT = "comp"  # of a module that declares none


def expand_groups(names: Iterable[str], sections: Mapping[str, BenchmarkSection]) -> list[str]:
    """Return the names, each group replaced by its benchmarks in params.yaml, without duplicates and in file order.

    A name that a group and a benchmark share means the benchmark. Raises UserError for a group without benchmarks.
    """
    benchmarks: dict[str, None] = {}
    for name in names:
        if name in sections or name not in GROUPS:
            benchmarks[name] = None
            continue
        members: dict[str, None] = {}
        for benchmark, section in sections.items():
            if find_group(section.benchmark or benchmark, f"benchmarks.{benchmark}") == name:
                members[benchmark] = None
        if not members:
            raise UserError(f"benchmarks: none is in the group {name!r} ({GROUPS[name]}); name benchmarks, or add one")
        benchmarks |= members
    return list(benchmarks)


def find_group(module: str, where: str = "") -> str:
    """Return the group that a benchmark's module declares, or the default group."""
    return getattr(plugins.load_plugin(plugins.BENCHMARKS, module, where), "BENCHMARK_GROUP", DEFAULT)

"""What a study's objectives are in the results of a run: columns of the report, its means among them.

A mean (`summary/Comp`) is of those columns that the pretrained model has, on the benchmarks that the study evaluates:
every trial, and every rung, has the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError, unknown
from compclip.base.files import read_mapping
from compclip.base.names import Name
from compclip.config.sections import Params
from compclip.config.structured import mapping
from compclip.report import tables
from compclip.report.tables import SUMMARY, Column
from compclip.runs import folder as folders
from compclip.runs import results
from compclip.runs.results import FinishedRun
from compclip.runs.store import StoredRun
from compclip.sweep.declared import Study, is_number


@dataclass(frozen=True)
class Numbers:
    """Metrics by `benchmark/metric`."""

    values: Mapping[str, float]

    def number(self, benchmark: str, metric: str) -> float | None:
        """A metric's value; None where there is none."""
        return self.values.get(f"{benchmark}/{metric}")


def columns(study: Study, pretrained: StoredRun, found: Path, params: Params) -> tuple[Column, ...]:
    """The objectives as columns; `found` holds the pretrained model's results.

    Raises UserError for a mean of benchmarks that are not evaluated.
    """
    if not any(o.benchmark == SUMMARY for o in study.objectives):
        return tuple(Column(o.benchmark, o.column.partition("/")[2]) for o in study.objectives)
    evaluated = params.evaluate.benchmarks
    scored = {name: results.read_result(folders.result(found, Name(name, "benchmark"))) for name in evaluated}
    return of_runs(study, [FinishedRun(pretrained.folder.final, found, pretrained.cell, {}, [], {}, scored)], params)


def of_runs(study: Study, runs: Sequence[FinishedRun], params: Params) -> tuple[Column, ...]:
    """The objectives as columns of some runs on the benchmarks that `params` evaluate."""
    evaluated = params.evaluate.benchmarks
    runs = [replace(run, results={b: r for b, r in run.results.items() if b in evaluated}) for run in runs]
    listed = [name for name in params.report.columns or () if name.partition("/")[0] in evaluated]
    shown = tables.columns(runs, listed, evaluated)
    known = {c.name: c for c in (*tables.every_column(runs, evaluated), *tables.summary_columns(shown, runs))}
    for objective in study.objectives:
        if objective.column not in known:
            kinds = "ZS classification, I2T and T2I retrieval, Comp composition, General all of the first three"
            fix = f"; {kinds}" if objective.benchmark == SUMMARY else ""
            raise UserError(f"study {study.name}: {objective.column}: not measured by the benchmarks evaluated{fix}")
    return tuple(known[o.column] for o in study.objectives)


def leaves(columns: Sequence[Column]) -> Iterator[Column]:
    """The metrics that columns are made of."""
    for column in columns:
        if column.parts:
            yield from leaves(column.parts)
        else:
            yield column


def benchmarks(columns: Sequence[Column]) -> list[str]:
    """Those that must be evaluated for some columns, each once."""
    return list(dict.fromkeys(column.benchmark for column in leaves(columns)))


def scores(columns: Sequence[Column], folder: Path) -> list[float]:
    """The columns' values from a finished run's results folder. Raises UserError for one that is not there."""
    found: dict[str, float] = {}
    for name in benchmarks(columns):
        path = folders.result(folder, Name(name, "benchmark"))
        metrics = mapping(read_mapping(path).get("metrics"), f"{path}: metrics")
        for column in leaves(columns):
            if column.benchmark == name:
                found[column.name] = _number(column.metric, metrics, path)
    return values(columns, found)


def _number(metric: str, metrics: Mapping[str, Any], path: Path) -> float:
    if metric not in metrics:
        raise unknown("metric", metric, metrics, str(path))
    if not is_number(value := metrics[metric]):
        raise UserError(f"{path}: {metric}={value}: must be a number; choose another column")
    return float(value)


def values(columns: Sequence[Column], found: Mapping[str, float]) -> list[float]:
    """The columns' values from metrics by name. Raises KeyError for one that is not there."""
    numbers = Numbers({column.name: float(found[column.name]) for column in leaves(columns)})
    return [float(value) for column in columns if (value := tables.value(numbers, column)) is not None]

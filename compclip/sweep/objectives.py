"""What a study's objectives are in the results of a run: columns of the report, its means among them.

A mean (`summary/Comp`) is of those columns that the pretrained model has, on the benchmarks that the study evaluates:
every trial, and every rung, has the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import UserError, unknown
from compclip.base.files import read_mapping
from compclip.base.safe_names import SafeName
from compclip.config.columns import SUMMARY
from compclip.config.sections import WHOLE, Params
from compclip.report import tables
from compclip.report.tables import Column
from compclip.runs import picture_splits, result_files
from compclip.runs import run_folder as folders
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_store import StoredRun
from compclip.sweep.study_declaration import Study


def objective_columns(study: Study, pretrained: StoredRun, results_folder: Path, params: Params) -> tuple[Column, ...]:
    """Return the objectives as columns; `results_folder` holds the pretrained model's results.

    Raises UserError for a mean of benchmarks that are not evaluated, and for a metric that a split has not.
    """
    if study.split == WHOLE and not any(o.benchmark == SUMMARY for o in study.objectives):
        return tuple(_read_column(o.benchmark, o.column, results_folder) for o in study.objectives)
    paths = [folders.result_path(results_folder, SafeName(name, "benchmark")) for name in params.evaluate.benchmarks]
    scored = {path.stem: result_files.read_result(path) for path in paths}
    scored = picture_splits.make_split(params, study.split).select_results(scored)
    run = FinishedRun(pretrained.folder.final, results_folder, pretrained.cell, {}, [], {}, scored)
    return columns_of_runs(study, [run], params)


def _read_column(benchmark: str, name: str, results_folder: Path) -> Column:
    """Return a single metric's column, which is a cosine where the results say so."""
    document = read_mapping(folders.result_path(results_folder, SafeName(benchmark, "benchmark")))
    metric = name.partition("/")[2]
    return Column(benchmark, metric, score=metric in document.get("scores", ()))


def columns_of_runs(study: Study, runs: Sequence[FinishedRun], params: Params) -> tuple[Column, ...]:
    """Return the objectives as columns of some runs on the benchmarks that `params` evaluate."""
    evaluated = params.evaluate.benchmarks
    runs = [replace(run, results={b: r for b, r in run.results.items() if b in evaluated}) for run in runs]
    report_columns = [name for name in params.report.columns or () if name.partition("/")[0] in evaluated]
    columns = tables.select_columns(runs, report_columns, evaluated)
    every_column = {c.name: c for c in (*tables.list_columns(runs, evaluated), *tables.summary_columns(columns, runs))}
    for objective in study.objectives:
        if objective.column not in every_column:
            kinds = "ZS classification, I2T and T2I retrieval, Comp composition, General all of the first three"
            fix = f"; {kinds}" if objective.benchmark == SUMMARY else ""
            where = "by the benchmarks evaluated" if study.split == WHOLE else f"on {study.split} items"
            raise UserError(f"study {study.name}: {objective.column}: not measured {where}{fix}")
    return tuple(every_column[o.column] for o in study.objectives)


def leaf_columns(columns: Sequence[Column]) -> Iterator[Column]:
    """Yield the metrics that columns are made of."""
    for column in columns:
        if column.members:
            yield from leaf_columns(column.members)
        else:
            yield column


def benchmarks(columns: Sequence[Column]) -> list[str]:
    """Return the benchmarks that must be evaluated for some columns, each once."""
    return list(dict.fromkeys(column.benchmark for column in leaf_columns(columns)))


def read_scores(columns: Sequence[Column], folder: Path, split: PictureSplit | None = None) -> list[float]:
    """Read the columns' values from a finished run's results folder, on the items of a split.

    Raises UserError for one that is not there.
    """
    paths = {name: folders.result_path(folder, SafeName(name, "benchmark")) for name in benchmarks(columns)}
    metrics_by_benchmark = _read_metrics(paths, folder, split or PictureSplit())
    metric_values: dict[str, float] = {}
    for column in leaf_columns(columns):
        metrics, path = metrics_by_benchmark[column.benchmark], paths[column.benchmark]
        if column.metric not in metrics:
            raise unknown("metric", column.metric, metrics, str(path))
        if metrics[column.metric] is None:  # of no item
            raise UserError(f"{path}: {column.metric}=None: must be a number; choose another column")
        metric_values[column.name] = metrics[column.metric]
    return column_values(columns, metric_values)


def _read_metrics(paths: Mapping[str, Path], folder: Path, split: PictureSplit) -> dict[str, Mapping[str, Any]]:
    """Read each benchmark's metrics; of a split from the outcomes of its items."""
    if split.name == WHOLE:
        return {name: read_mapping(path)["metrics"] for name, path in paths.items()}
    validation_sets = {split.authors[name] for name in paths if name in split.authors}
    all_paths = dict(paths) | {
        name: folders.result_path(folder, SafeName(name, "benchmark")) for name in validation_sets
    }
    selected = split.select_results({name: result_files.read_result(path) for name, path in all_paths.items()})
    return {name: selected[name].metrics if name in selected else {} for name in paths}


def column_values(columns: Sequence[Column], metric_values: Mapping[str, float]) -> list[float]:
    """Return the columns' values from metrics by name. Raises KeyError for one that is not there."""
    return [
        float(np.mean(column_values(column.members, metric_values)) if column.members else metric_values[column.name])
        for column in columns
    ]

"""Studies: what experiments/studies/<name>.yaml declares, and from a trial's values to its run and back to its scores.

    method: fsc_clip            # or name.variant; values go into its section of params.yaml
    backbone: scenes
    data: scenes
    seed: 0                     # of the runs and of the sampler
    overrides: [train.epochs=2] # on params.yaml, for every trial
    space:
      gamma: {float: [0, 5]}
      train.lr: {float: [1e-5, 1e-3], log: true}
      positives: {int: [2, 4]}
      attention: {categorical: [minmax, softmax]}
      lambda_local: {float: [0, 1], when: {attention: [minmax]}}   # drawn only then; else as in params.yaml
    paper: [{gamma: 2.0}]       # the first trials
    sampler: tpe                # a file of compclip/sweep/samplers: tpe, gp, nsga2, random …
    startup_trials: 5           # drawn at random before the sampler learns (nsga2: its population)
    pruner: none                # or dominated (sampling_and_pruning.py)
    rungs: [0.25, 0.5]          # where a pruner looks, as shares of the run's steps
    objectives: [{column: sugarcrepe_pp/swap_itt, direction: maximize}]   # or a mean of the report: summary/Comp …
    split: validation           # the items that the objectives are of: whole (default), validation or test
    trials: 12
    params: params.yaml         # what the trials start from, where the command names no other

A study of whole benchmarks selects on what it reports: its best value is optimistic. With `split: validation` the test
items stay unseen; or choose on one benchmark and report another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from compclip.base import plugins, yaml_text
from compclip.base.errors import UserError, one_line, unknown
from compclip.base.files import read_mapping
from compclip.base.safe_names import SafeName
from compclip.config import grid, read
from compclip.config.cell import PRETRAINED, Cell
from compclip.config.columns import SUMMARIES, SUMMARY
from compclip.config.grid import Run
from compclip.config.sections import WHOLE, Finite, Params, Value, ValueRange
from compclip.config.validation import RequiredText, Seed, list_constants, list_fields, load_section, mapping
from compclip.report import tables
from compclip.report.tables import Column
from compclip.runs import picture_splits, result_files
from compclip.runs import run_folder as folders
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_store import StoredRun

FOLDER = Path("experiments/studies")


@dataclass(frozen=True)
class Dimension:
    """One searched value: numbers in [low, high] or one of `choices`; drawn only if all of `when` holds."""

    name: str
    kind: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[Value, ...] = ()
    when: Mapping[str, tuple[Value, ...]] | None = None

    def active(self, values: Mapping[str, Value]) -> bool:
        """Return whether it is drawn, given the values drawn before it."""
        return all(values.get(name) in choices for name, choices in (self.when or {}).items())

    def holds(self, value: Any) -> bool:
        """Return whether a value lies in it."""
        if self.kind == "categorical":
            return any(value == c and isinstance(value, bool) == isinstance(c, bool) for c in self.choices)
        types = (int,) if self.kind == "int" else (int, float)
        return type(value) in types and self.low <= value <= self.high


@dataclass(frozen=True)
class Objective:
    """A column of the report, `benchmark/metric`, and which way is better."""

    column: str
    direction: Literal["maximize", "minimize"] = "maximize"

    def __post_init__(self) -> None:
        """Check the form of the column. Raises ValueError."""
        if not re.fullmatch("[^/]+/.+", self.column):
            raise ValueError("must have a column as benchmark/metric, as sugarcrepe/swap")

    @property
    def benchmark(self) -> SafeName:
        """The part before the first stroke."""
        return SafeName(self.column.partition("/")[0], "benchmark")

    @property
    def sign(self) -> int:
        """1 where more is better, else -1."""
        return 1 if self.direction == "maximize" else -1


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """What a study's file and a study have alike; see the top of this file."""

    trials: PositiveInt
    objectives: Annotated[tuple[Objective, ...], Field(min_length=1)]
    seed: Seed = 0
    overrides: tuple[str, ...] = ()
    paper: tuple[dict[str, Value], ...] = ()
    sampler: str = "tpe"
    startup_trials: PositiveInt = 5
    pruner: Literal["none", "dominated"] = "none"
    rungs: tuple[Finite, ...] = (0.25, 0.5)
    dominated_share: ClassVar[float] = 0.5  # of the other trials at a rung, that beat a trial which `dominated` stops
    split: Literal["whole", "validation", "test"] = "whole"
    params: str = read.DEFAULT

    def __post_init__(self) -> None:
        """Check what holds between fields. Raises UserError."""
        least = getattr(plugins.load_plugin(plugins.SAMPLERS, self.sampler), "LEAST_STARTUP", 1)
        if self.startup_trials < least:
            raise UserError(f"startup_trials={self.startup_trials}: must be >= {least} with the sampler {self.sampler}")
        if self.pruner != "none" and self.split != WHOLE:
            raise UserError(
                f"pruner={self.pruner}: rungs have numbers of whole benchmarks; set none with split={self.split}"
            )
        steps = [0.0, *self.rungs, 1.0]
        if sorted(set(steps)) != steps:
            raise UserError(f"rungs={list(self.rungs)}: must rise and lie between 0 and 1")
        columns = [o.column for o in self.objectives]
        if len(columns) != len(set(columns)):
            raise UserError(f"objectives: {columns} names a column twice; remove one")


@dataclass(frozen=True)
class SpaceEntry(ValueRange):
    """A dimension as a study's file has it."""

    when: dict[str, tuple[Value, ...]] | None = None

    def to_dimension(self, name: str) -> Dimension:
        """Return the dimension under its name."""
        when = self.when or None
        if self.categorical is not None:
            return Dimension(name, "categorical", choices=self.categorical, when=when)
        low, high = self.float or self.int or (0.0, 0.0)
        return Dimension(name, "float" if self.float else "int", low, high, self.log, when=when)


@dataclass(frozen=True, kw_only=True)
class StudySection(StudyOptions):
    """A study's file."""

    method: RequiredText
    backbone: RequiredText
    data: RequiredText
    space: Annotated[dict[str, SpaceEntry], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Study(StudyOptions):
    """A declared study; see the top of this file."""

    name: SafeName
    method: SafeName
    backbone: SafeName
    data: SafeName
    space: tuple[Dimension, ...]

    def identity(self) -> dict:
        """Return what must not change between two starts of a study: everything but the number of trials.

        Studies that were begun before there were splits are of whole benchmarks.
        """
        declaration = asdict(self) | list_constants(Study)
        del declaration["trials"]
        if self.split == WHOLE:
            del declaration["split"]
        return json.loads(json.dumps(declaration))

    def sign_values(self, values: Sequence[float]) -> list[float]:
        """Return values of the objectives so that more is better."""
        return [o.sign * value for o, value in zip(self.objectives, values, strict=True)]


def load_study(name: str, folder: Path = FOLDER) -> Study:
    """Return the study of that name. Raises UserError naming file, key, value and fix."""
    path = folder / f"{SafeName(name, '--study')}.yaml"
    if not path.is_file():
        raise unknown("study", name, [p.stem for p in folder.glob("*.yaml")], str(folder))
    raw = yaml_text.read_yaml(path, "must be a mapping with method, space, objectives and trials")
    try:
        return parse_study(name, yaml_text.to_plain(raw, "study"))
    except UserError as error:
        raise UserError(one_line(f"{path}: {error}")) from error


def parse_study(name: str, raw: Any) -> Study:
    """Return a study from its plain values, checked."""
    raw = {key: value for key, value in mapping(raw, "the file").items() if value is not None}
    if isinstance(raw.get("objectives"), list):  # a column alone stands for itself, maximised
        raw["objectives"] = [{"column": entry} if isinstance(entry, str) else entry for entry in raw["objectives"]]
    section = load_section(StudySection, raw, "study")
    options = dict(vars(section))
    for key in ("method", "backbone", "data"):
        options[key] = SafeName(options[key], key)
    options["space"] = _name_dimensions(section.space)
    options["paper"] = tuple(_check_paper_values(values, options["space"]) for values in section.paper)
    return Study(name=SafeName(name, "study"), **options)


def _name_dimensions(space: Mapping[str, SpaceEntry]) -> tuple[Dimension, ...]:
    """Return the dimensions in their order; conditions may name those that stand earlier."""
    dimensions: dict[str, Dimension] = {}
    for name, entry in space.items():
        for parent, choices in (entry.when or {}).items():
            where = f"study.space.{name}.when"
            if parent not in dimensions:
                raise unknown("dimension", parent, dimensions, f"{where} (must stand before it)")
            for value in choices:
                if not dimensions[parent].holds(value):
                    raise UserError(f"{where}.{parent}={value!r}: is not in the space of {parent}")
        dimensions[name] = entry.to_dimension(name)
    return tuple(dimensions.values())


def _check_paper_values(values: Mapping[str, Value], space: Sequence[Dimension]) -> dict[str, Value]:
    """Return one of the paper's settings: a value for each dimension that is drawn, inside the space."""
    names = [d.name for d in space]
    for name in values:
        if name not in names:
            raise unknown("key", name, names, "study.paper")
    checked: dict[str, Value] = {}
    for d in space:
        problem = ""
        if d.active(checked) != (d.name in values):
            problem = "is missing" if d.active(checked) else "is not drawn then"
        elif d.name in values and not d.holds(values[d.name]):
            problem = "is outside its space; widen the space"
        if problem:
            raise UserError(f"study.paper={dict(values)}: {d.name} {problem}")
        if d.name in values:
            checked[d.name] = float(values[d.name]) if d.kind == "float" else values[d.name]
    return checked


def trial_overrides(study: Study, values: Mapping[str, Value], methods: Mapping[str, Any]) -> list[str]:
    """Return a trial as `key=value` on params.yaml: the study's own, then the values in the method's section.

    `methods` is params.yaml's: where a method has values for the study's data alone, the trial's go there, since they
    would stand over its own otherwise.
    """
    base, dot, variant = study.method.partition(".")
    section = f"methods.{base}" + (f".variants.{variant}" if dot else "")
    if not dot and study.data in ((methods.get(base) or {}).get(grid.PER_DATA) or {}):
        section += f".{grid.PER_DATA}.{study.data}"
    overrides = list(study.overrides)
    for name, value in values.items():
        overrides.append(f"{section}.{name}={json.dumps(value)}")
    return overrides


def trial_run(study: Study, params: Params, method: str = "", source: str = "the grid") -> Run:
    """Return the run that `params` (a trial's overrides applied) describes; `method`: another one than the study's.

    Raises UserError where the file `source` that `params` are from has no section for a name of the study.
    """
    cell = Cell(SafeName(method or study.method, "method"), study.backbone, study.data, study.seed)
    base = cell.method.partition(".")[0]
    fix = f"{source} has no such section: give a grid that has it (--params FILE), or write it there"
    for kind, name, table in (
        ("method", base, (*params.methods, PRETRAINED)),
        ("backbone", cell.backbone, params.backbones),
        ("data", cell.data, params.data),
    ):
        if name not in table:
            raise UserError(f"{unknown(kind, name, table, f'study {study.name}')}; {fix}")
    method_config, train = grid.method_config(params, cell.method, cell.data)
    train = replace(train, snapshots=[], choose="")  # a trial is judged by its end
    return Run(cell, method_config, train, params.backbones[cell.backbone], params.data[cell.data])


def corner_values(study: Study) -> dict[str, Value]:
    """Return values that do not depend on params.yaml's in the searched places: the paper's, or the lowest."""
    values: dict[str, Value] = dict(study.paper[0]) if study.paper else {}
    for d in study.space:
        if d.name not in values and d.active(values):
            values[d.name] = d.choices[0] if d.choices else d.low
    return values


def check_study(study: Study, params: Params, source: str = "the grid") -> None:
    """Raise UserError for an objective that is not measured, or a dimension that is no parameter of the method."""
    for objective in study.objectives:
        kind = objective.benchmark
        metric = objective.column.partition("/")[2]
        where = f"study {study.name}: {objective.column}"
        if kind == SUMMARY and metric not in SUMMARIES:
            raise unknown("summary", metric, SUMMARIES, where)
        if kind not in (SUMMARY, *params.evaluate.benchmarks):
            raise unknown("benchmark", kind, params.evaluate.benchmarks, f"{where}: not among evaluate.benchmarks")
    base = trial_run(study, params, source=source)
    parameters = list_fields(base.method) + [f"train.{name}" for name in list_fields(base.train)]
    for dimension in study.space:
        if dimension.name not in parameters:
            raise unknown("parameter", dimension.name, parameters, f"study {study.name}: space")


# What a study's objectives are in the results of a run: columns of the report, its means among them.
#
# A mean (`summary/Comp`) is of those columns that the pretrained model has, on the benchmarks that the study
# evaluates: every trial, and every rung, has the same.


def objective_columns(study: Study, pretrained: StoredRun, results_folder: Path, params: Params) -> tuple[Column, ...]:
    """Return the objectives as columns; `results_folder` holds the pretrained model's results.

    Raises UserError for a mean of benchmarks that are not evaluated, and for a metric that a split has not.
    """
    scored = _read_results(results_folder, params.evaluate.benchmarks)
    scored = picture_splits.make_split(params, study.split).select_results(scored)
    run = FinishedRun(pretrained.folder.final, results_folder, pretrained.cell, {}, [], {}, scored)
    return columns_of_runs(study, [run], params)


def read_run(columns: Sequence[Column], stored: folders.RunFolder, cell: Cell, split: PictureSplit) -> FinishedRun:
    """Read a finished run of the store with the columns' benchmarks, on the items of a split."""
    names = list_benchmarks(columns)
    assert stored.results is not None  # of a run that was told
    results = _read_results(stored.results, {*names, *(split.authors[n] for n in names if n in split.authors)})
    return FinishedRun(stored.final, stored.results, cell, {}, [], {}, split.select_results(results))


def _read_results(folder: Path, benchmarks: Iterable[str]) -> dict[str, Result]:
    results = {}
    for name in benchmarks:
        results[name] = result_files.read_result(folders.result_path(folder, SafeName(name, "benchmark")))
    return results


def columns_of_runs(study: Study, runs: Sequence[FinishedRun], params: Params) -> tuple[Column, ...]:
    """Return the objectives as columns of some runs on the benchmarks that `params` evaluate."""
    evaluated = params.evaluate.benchmarks
    evaluated_runs = []
    for run in runs:
        results = {name: result for name, result in run.results.items() if name in evaluated}
        evaluated_runs.append(replace(run, results=results))
    report_columns = [name for name in params.report.columns or () if name.partition("/")[0] in evaluated]
    columns = tables.select_columns(evaluated_runs, report_columns, evaluated)
    every_column: dict[str, Column] = {}
    for column in (*tables.list_columns(evaluated_runs, evaluated), *tables.summary_columns(columns, evaluated_runs)):
        every_column[column.name] = column
    objectives = []
    for objective in study.objectives:
        if objective.column not in every_column:
            where = "by the benchmarks evaluated" if study.split == WHOLE else f"on {study.split} items"
            raise unknown("column", objective.column, every_column, f"study {study.name}, measured {where}")
        objectives.append(every_column[objective.column])
    return tuple(objectives)


def leaf_columns(columns: Sequence[Column]) -> Iterator[Column]:
    """Yield the metrics that columns are made of."""
    for column in columns:
        if column.members:
            yield from leaf_columns(column.members)
        else:
            yield column


def list_benchmarks(columns: Sequence[Column]) -> list[str]:
    """Return the benchmarks that must be evaluated for some columns, each once."""
    return list(dict.fromkeys(column.benchmark for column in leaf_columns(columns)))


def read_scores(columns: Sequence[Column], folder: Path, split: PictureSplit | None = None) -> list[float]:
    """Read the columns' values from a finished run's results folder, on the items of a split.

    Raises UserError for one that is not there.
    """
    paths = {name: folders.result_path(folder, SafeName(name, "benchmark")) for name in list_benchmarks(columns)}
    metrics_by_benchmark = _read_metrics(paths, folder, split or PictureSplit())
    metric_values: dict[str, float] = {}
    for column in leaf_columns(columns):
        metrics = metrics_by_benchmark[column.benchmark]
        path = paths[column.benchmark]
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
    selected = split.select_results(_read_results(folder, {*paths, *validation_sets}))
    return {name: selected[name].metrics if name in selected else {} for name in paths}


def column_values(columns: Sequence[Column], metric_values: Mapping[str, float]) -> list[float]:
    """Return the columns' values from metrics by name. Raises KeyError for one that is not there."""
    values = []
    for column in columns:
        if column.members:
            values.append(float(np.mean(column_values(column.members, metric_values))))
        else:
            values.append(float(metric_values[column.name]))
    return values

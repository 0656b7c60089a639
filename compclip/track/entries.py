"""What MLflow is to show: one entry for each MLflow run, made from runs and studies; nothing here knows MLflow.

A run's loss curve is read when it is logged, and not before: an entry that is logged already needs none.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from compclip.base.files import fingerprint, read_mapping
from compclip.config.cell import Cell
from compclip.config.columns import SUMMARY
from compclip.report import tables
from compclip.report.run_details import flatten_keys
from compclip.report.tables import Column
from compclip.runs import result_files
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import SHARE, SnapshotResults, Trained
from compclip.runs.run_folder import SUMMARY as SUMMARY_FILE
from compclip.track import descriptions
from compclip.track.item_tables import ItemTables
from compclip.track.live_runs import LiveRun
from compclip.track.tracked_files import RunSummary, StudyFile, StudyTrial, best_trials

# Book-keeping; the UI shows no tag that begins with `mlflow.`.
KEY, CONTENT, FILES, COMPLETE = (f"mlflow.compclip.{name}" for name in ("key", "content", "files", "complete"))
LIMIT = 500  # characters of a parameter
LAYOUT = 5  # raised when the same files are to be shown in another way
CURVE_OF_SYSTEM = ("samples_per_second", "matrix_share", "data_wait")
NOT_LOGGED = ("step", "time")
SCORE = "score/"
MIB = 2**20
ScoredRun = tuple[FinishedRun, Mapping[str, float]]  # a run and its scores


class MetricPoint(NamedTuple):
    """One point of a metric; `dataset` names the data it was measured on, if there is one."""

    name: str
    value: Any
    time: float
    step: int = 0
    dataset: str = ""

    @property
    def is_finite(self) -> bool:
        """Whether MLflow can hold the value."""
        return isinstance(self.value, (int, float)) and math.isfinite(self.value)


class DatasetUse(NamedTuple):
    """Data that a run read, and for what."""

    name: str
    digest: str
    source: str
    context: str


@dataclass(frozen=True)
class MlflowEntry:
    """One MLflow run as it should be; `at_home`: it belongs in `experiment` and is moved there.

    `project` tells ours from what others log. `numbers` stand beside the loss curve of `curve`; `files` are named as
    MLflow shows them, and `content_of_files` is their hash.
    """

    key: str
    name: str
    experiment: str
    at_home: bool
    tags: dict[str, str]
    note: str
    params: dict[str, str]
    numbers: tuple[MetricPoint, ...]
    files: dict[str, Path]
    content_of_files: str
    curve: Trained | None = None
    datasets: tuple[DatasetUse, ...] = ()
    checkpoint: Path | None = None
    start: float = 0.0
    end: float = 0.0
    status: str = "FINISHED"
    parent: str = ""
    project: str = ""
    results: Path | None = None  # the folder of which `tables` makes tables of items
    tables: ItemTables | None = None
    pretrained_results: Path | None = None  # the folder that items are compared with
    content_of_pretrained: str = ""

    @cached_property
    def content(self) -> str:
        """A hash of what cannot be changed in an MLflow run once it is logged; times and the note are not in it."""
        numbers = [(v.name, repr(v.value), v.step) for v in self.numbers]
        rows = self.tables.rows if self.tables else 0
        content = [LAYOUT, rows, self.tags, self.params, numbers, self.datasets, self.status, bool(self.checkpoint)]
        text = json.dumps(content, sort_keys=True) + self.content_of_files + self.content_of_pretrained
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def files_stamp(self) -> str:
        """The hash of its files and the way that they are shown in, whatever the grid's columns are."""
        return f"{LAYOUT}:{self.content_of_files}"

    @cached_property
    def values(self) -> list[MetricPoint]:
        """The loss curve, read from its file, and the numbers."""
        return [*(curve_points(result_files.read_curve(self.curve)) if self.curve else ()), *self.numbers]

    @property
    def scores(self) -> dict[str, float]:
        """The report's summary and one number for each benchmark."""
        return {v.name.removeprefix(SCORE): v.value for v in self.numbers if v.name.startswith(SCORE)}

    @property
    def finite(self) -> list[MetricPoint]:
        """The values that MLflow can hold."""
        return [v for v in self.values if v.is_finite]


@dataclass(frozen=True)
class EntryOptions:
    """How entries are made: the grid's experiment and cells, the report's columns, the upload limit, item tables."""

    experiment: str
    grid: frozenset[str]
    project: str
    columns: tuple[Column, ...] = ()
    checkpoint_mib: float = 64.0
    tables: ItemTables | None = None


@dataclass(frozen=True)
class TrackedProject:
    """Everything that the store is made from; `is_complete`: the stamp of what it holds may be written."""

    entries: tuple[MlflowEntry, ...]
    cells: tuple[RunSummary, ...]
    options: EntryOptions
    methods: tuple[str, ...] = ()
    is_complete: bool = True
    grid: tuple[ScoredRun, ...] = ()
    live: tuple[LiveRun, ...] = ()


def make_cell_entries(summaries: Sequence[RunSummary], options: EntryOptions) -> list[MlflowEntry]:
    """Make an entry for each run."""
    runs = [summary.run for summary in summaries]
    content_of = {summary.run: summary.content for summary in summaries}
    entries = []
    for summary in summaries:
        run = summary.run
        pretrained = tables.select_pretrained_runs(runs, [run.cell.backbone], run.cell.data)
        base = pretrained[0] if pretrained and options.tables and run not in pretrained else None
        inside, folder = run.cell.name in options.grid, run.checkpoint
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) if folder else math.inf
        uploaded = size <= options.checkpoint_mib * MIB
        tags = {"kind": "cell", **cell_tags(run.cell, run.environment)}
        tags |= {"checkpoint": str(folder or ""), "checkpoint_uploaded": str(uploaded).lower()}
        entry = MlflowEntry(
            key=f"cell/{summary.name}",
            name=summary.name,
            experiment=options.experiment if inside else name_experiment(options.project, [run]),
            at_home=inside,
            tags=tags,
            note=descriptions.describe_cell(run, pretrained, options.columns),
            params=flatten_config(run.config),
            numbers=(*_result_points(run, options.columns), *_snapshot_points(run)),
            files=summary.files,
            content_of_files=summary.content,
            curve=run.trained,
            datasets=tuple(_list_datasets(run)),
            checkpoint=folder if uploaded else None,
            start=run.start,
            end=run.end,
            project=options.project,
            results=run.results_folder,
            tables=options.tables,
            pretrained_results=base.results_folder if base else None,
            content_of_pretrained=content_of[base] if base else "",
        )
        entries.append(entry)
    return entries


def name_experiment(
    project: str, runs: Iterable[FinishedRun] = (), backbones: Iterable[str] = (), data: Iterable[str] = ()
) -> str:
    """Return `project: backbones on data` of a grid, or of runs."""
    names = ([*backbones, *(r.cell.backbone for r in runs)], [*data, *(r.cell.data for r in runs)])
    first, second = (", ".join(dict.fromkeys(n)) for n in names)
    return f"{project}: {first} on {second}"


def cell_tags(cell: Cell, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of a cell and of what environment.json says, both of its own and of MLflow's."""
    tags = {k: str(getattr(cell, k)) for k in ("method", "backbone", "data", "seed")}
    tags |= {k: str(facts.get(k) or "") for k in ("run_key", "git_commit", "device")}
    fact_of_tag = {"host": "host", "mlflow.user": "user", "mlflow.source.git.branch": "git_branch"}
    tags |= {name: str(facts[fact]) for name, fact in fact_of_tag.items() if facts.get(fact)}
    commit = tags["git_commit"].rstrip("+")
    return tags | {"mlflow.source.name": "python -m compclip.train", "mlflow.source.git.commit": commit}


def flatten_config(config: dict[str, Any]) -> dict[str, str]:
    """Flatten the resolved configuration to dotted keys, the cell's own bare; a longer value ends with an ellipsis."""
    flat = {k.removeprefix("cell."): str(v) for k, v in flatten_keys(config).items() if v != {}}
    return {k: v if len(v) <= LIMIT else v[: LIMIT - 1] + "…" for k, v in flat.items()}


def curve_points(rows: Iterable[Mapping[str, Any]]) -> Iterator[MetricPoint]:
    """Yield the lines of a metrics.jsonl with its steps and times: losses as train/<term>, speeds as system/<fact>.

    What share of the samples had a text or picture keeps its name, share/<part>.
    """
    for line in rows:
        for key in (k for k in line if k not in NOT_LOGGED):
            group = "system/" if key in CURVE_OF_SYSTEM else "" if key.startswith(SHARE) else "train/"
            yield MetricPoint(f"{group}{key}", line[key], line["time"], line["step"])


def _result_points(run: FinishedRun, columns: Sequence[Column]) -> Iterator[MetricPoint]:
    """Yield results as <benchmark>/<metric>, whole-benchmark numbers as score/<benchmark>, facts as system/<fact>."""
    for result in run.results.values():
        for metric, value in result.metrics.items():
            name = f"{result.benchmark}/{metric}".replace("@", "_at_")  # MLflow refuses @
            yield MetricPoint(name, value, run.end, 0, result.benchmark)
    numbers = {c.name: tables.column_value(run, c) for c in columns if c.members}  # which no result file has
    numbers |= {f"{SCORE}{name}": value for name, value in compute_headlines(run, columns).items()}
    numbers |= {
        "system/peak_memory_mib": run.environment.get("peak_memory_mib"),
        "system/threads": run.environment.get("threads"),
        "system/train_seconds": run.environment.get("seconds"),
        "system/device_hours": descriptions.device_hours(run),
        # each result file has the seconds of the whole pass over all benchmarks
        "system/evaluate_seconds": max((r.seconds for r in run.results.values()), default=None),
    }
    for name, number in numbers.items():
        if number is not None:
            yield MetricPoint(name, number, run.end)


def _snapshot_points(run: FinishedRun) -> Iterator[MetricPoint]:
    """Yield the results at shares of the training as snapshot/<benchmark>/<metric>, a step each; none without any."""
    published = SnapshotResults(run.results_folder)
    steps = read_mapping(published.record)["steps"] if published.record.is_file() else {}
    for share, step in sorted(steps.items(), key=lambda item: item[1]):
        for name, value in read_mapping(published.at(float(share)) / SUMMARY_FILE).items():
            if name.count("/") == 1:  # groups of items are in the files
                yield MetricPoint(f"snapshot/{name}".replace("@", "_at_"), value, run.end, step)


def compute_headlines(run: FinishedRun, columns: Sequence[Column]) -> dict[str, float]:
    """Compute comp, zs, i2t and t2i of the report's summary, then one number for each benchmark by its name."""
    summary = tables.summary_columns(columns, [run])
    headlines = {c.metric.lower(): tables.column_value(run, c) for c in summary}
    headlines |= {name: tables.column_value(run, _headline_column(name, run, summary)) for name in run.results}
    return {name: value for name, value in headlines.items() if value is not None}


def _headline_column(benchmark: str, run: FinishedRun, summary: Sequence[Column]) -> Column:
    """Return the whole-benchmark column: the report's part of Comp or ZS, else the benchmark's headline."""
    members = [column for c in summary if c.metric in ("Comp", "ZS") for column in c.members]
    report_column = next((column for column in members if column.benchmark == benchmark), None)
    return report_column or Column(SUMMARY, benchmark, tables.headline(benchmark, [run]))


def _list_datasets(run: FinishedRun) -> Iterator[DatasetUse]:
    data = run.config.get("data")
    if run.curve and data:
        digest = run.environment.get("data_fingerprint")
        # without the fingerprint of its contents, the data set is known by what the configuration says of it
        digest = digest or "cfg-" + hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
        yield DatasetUse(run.cell.data, digest[:32], json.dumps(data), "training")
    for result in run.results.values():
        source = json.dumps({"benchmark": result.module, "counts": result.counts})
        yield DatasetUse(result.benchmark, result.fingerprint[:32] or "unknown", source, "evaluation")


def make_study_entries(study: StudyFile, options: EntryOptions) -> list[MlflowEntry]:
    """Make a parent for the study, then an entry for each of its trials."""
    runs = [t.run.run for t in study.trials if t.run]
    experiment = name_experiment(options.project, runs) if runs else f"{options.project}: studies"
    key, now = f"study/{study.name}", (study.path / "trials.json").stat().st_mtime
    trials = [_make_trial_entry(study, trial, experiment, options, now) for trial in study.trials]
    numbers = {
        f"best/{name}": trial.values[list(study.objectives).index(name)] for name, trial in best_trials(study).items()
    }
    states = Counter(trial.state for trial in study.trials)
    numbers |= {f"study/{state}_trials": states[state] for state in sorted(states)}
    command = f"compclip sweep --study {study.name}"
    tags = {"kind": "study", "study": study.name, "method": study.method, "mlflow.source.name": command}
    files = {p.name: p for p in sorted(study.path.iterdir()) if p.suffix in (".json", ".yaml", ".html", ".csv")}
    start = min((t.start for t in trials), default=now)
    status = "RUNNING" if any(t.status == "RUNNING" for t in trials) else "FINISHED"
    parent = MlflowEntry(
        key=key,
        name=f"study {study.name}",
        experiment=experiment,
        at_home=True,
        tags=tags,
        note=descriptions.describe_study(study),
        params={"method": study.method},
        numbers=tuple(MetricPoint(name, value, now) for name, value in numbers.items()),
        files=files,
        content_of_files=fingerprint(*files.values()),
        start=start,
        end=now,
        status=status,
        project=options.project,
    )
    return [parent, *trials]


def _make_trial_entry(
    study: StudyFile, trial: StudyTrial, experiment: str, options: EntryOptions, now: float
) -> MlflowEntry:
    summary = trial.run
    run = summary.run if summary else None
    tags = {"kind": "trial", "study": study.name, "trial": str(trial.number), "trial_state": trial.state}
    tags |= {k: str(v) for k, v in trial.facts.items()} | (
        cell_tags(run.cell, run.environment) if run else {"method": study.method}
    )
    tags |= {"mlflow.source.name": f"python -m compclip.sweep --study {study.name}"}
    end = run.end if run else trial.ended or now
    start = run.start if run else trial.started or end
    steps = [
        MetricPoint(f"intermediate/{n}", v, end, step)
        for step, values in trial.intermediate.items()
        for n, v in zip(study.objectives, values, strict=False)
    ]
    objectives = [MetricPoint(f"objective/{n}", v, end) for n, v in zip(study.objectives, trial.values, strict=False)]
    status = {"complete": "FINISHED", "pruned": "KILLED", "fail": "FAILED", "failed": "FAILED"}
    return MlflowEntry(
        key=f"trial/{study.name}/{trial.number}",
        name=f"{study.name} {trial.number:03d}",
        experiment=experiment,
        at_home=True,
        tags=tags,
        note=descriptions.describe_trial(study, trial),
        params=flatten_config(run.config if run else {}) | flatten_config(trial.params),
        numbers=(*objectives, *steps, *(_result_points(run, options.columns) if run else ())),
        files=summary.files if summary else {},
        content_of_files=summary.content if summary else "",
        curve=run.trained if run else None,
        datasets=tuple(_list_datasets(run)) if run else (),
        start=start,
        end=end,
        status=status.get(trial.state, "RUNNING"),
        parent=f"study/{study.name}",
        project=options.project,
    )


def select_columns(runs: Sequence[FinishedRun], column_names: Sequence[str]) -> tuple[Column, ...]:
    """Select the report's columns that some run has; without `wanted`, every metric that is no detail of another."""
    benchmarks = list(dict.fromkeys(b for run in runs for b in run.results))
    every_column = {c.name: c for c in tables.list_columns(runs, benchmarks)}
    available = [name for name in column_names if tables.resolve_column(name, every_column)]
    return tables.select_columns(runs, available, benchmarks)


def find_winners(scored: Sequence[ScoredRun]) -> dict[str, tuple[FinishedRun, float]]:
    """Find the best run by each benchmark's one number, the first of equals; a benchmark without one has no winner."""
    winners: dict[str, tuple[FinishedRun, float]] = {}
    for run, values in scored:
        for name in run.results:
            if name in values and (name not in winners or values[name] > winners[name][1]):
                winners[name] = (run, values[name])
    return winners

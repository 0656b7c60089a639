"""What MLflow is to show: one entry for each MLflow run, made from runs and studies; nothing here knows MLflow.

A run's loss curve is read when it is logged, and not before: an entry that is logged already needs none.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from compclip.base.files import fingerprint
from compclip.report import tables
from compclip.report.run_details import flatten_keys
from compclip.report.tables import Column
from compclip.runs import result_files
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import SHARE, Trained
from compclip.track import descriptions, headline_scores
from compclip.track.run_summaries import RunSummary
from compclip.track.study_files import StudyFile, StudyTrial, best_trials

# Book-keeping; the UI shows no tag that begins with `mlflow.`.
KEY, CONTENT, FILES, COMPLETE, PROJECT = (
    f"mlflow.compclip.{name}" for name in ("key", "content", "files", "complete", "project")
)
MODEL_EXPERIMENT = "experiment"  # the tag of a registered model
VERSION_TAGS = frozenset(("method", "backbone", "data", "seed"))  # of a version of one
LIMIT = 500  # characters of a parameter
LAYOUT = 3  # raised when the same files are to be shown in another way
CURVE_OF_SYSTEM = ("samples_per_second", "matrix_share", "data_wait")
NOT_LOGGED = ("step", "time")
SCORE = "score/"
MIB = 2**20


class MetricPoint(NamedTuple):
    """One point of a metric; `dataset` names the data it was measured on, if there is one."""

    name: str
    value: Any
    time: float
    step: int = 0
    dataset: str = ""


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

    @cached_property
    def content(self) -> str:
        """A hash of what cannot be changed in an MLflow run once it is logged; times and the note are not in it."""
        numbers = [(v.name, repr(v.value), v.step) for v in self.numbers]
        content = [LAYOUT, self.tags, self.params, numbers, self.datasets, self.status, self.checkpoint is not None]
        text = json.dumps(content, sort_keys=True) + self.content_of_files
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def files_stamp(self) -> str:
        """The hash of its files and the way that they are shown in, whatever the grid's columns are."""
        return f"{LAYOUT}:{self.content_of_files}"

    @cached_property
    def values(self) -> list[MetricPoint]:
        """The loss curve, read from its file, and the numbers."""
        return [*(_curve_points(self.curve) if self.curve else ()), *self.numbers]

    @property
    def scores(self) -> dict[str, float]:
        """The report's summary and one number for each benchmark."""
        return {v.name.removeprefix(SCORE): v.value for v in self.numbers if v.name.startswith(SCORE)}

    @property
    def finite(self) -> list[MetricPoint]:
        """The values that MLflow can hold."""
        return [v for v in self.values if isinstance(v.value, (int, float)) and math.isfinite(v.value)]


@dataclass(frozen=True)
class EntryOptions:
    """How entries are made: the grid's experiment and cells, the report's columns, the upload limit."""

    experiment: str
    grid: frozenset[str]
    project: str
    columns: tuple[Column, ...] = ()
    checkpoint_mib: float = 64.0


def make_cell_entries(summaries: Sequence[RunSummary], options: EntryOptions) -> list[MlflowEntry]:
    """Make an entry for each run."""
    runs = [summary.run for summary in summaries]
    pairs = dict.fromkeys((run.cell.backbone, run.cell.data) for run in runs)
    references = {
        backbone_data: descriptions.ReferenceMeans(tables.select_pretrained_runs(runs, *backbone_data))
        for backbone_data in pairs
    }
    return [
        _make_cell_entry(summary, references[summary.run.cell.backbone, summary.run.cell.data], options)
        for summary in summaries
    ]


def _make_cell_entry(summary: RunSummary, reference: descriptions.ReferenceMeans, options: EntryOptions) -> MlflowEntry:
    run, name = summary.run, summary.name
    inside = run.cell.name in options.grid
    tags = {"kind": "cell", **_cell_tags(run)} | _checkpoint_tags(run, options.checkpoint_mib)
    checkpoint = run.checkpoint if tags["checkpoint_uploaded"] == "true" else None
    return MlflowEntry(
        key=f"cell/{name}",
        name=name,
        experiment=options.experiment if inside else name_experiment(options.project, [run]),
        at_home=inside,
        tags=tags,
        note=descriptions.describe_cell(run, reference, options.columns),
        params=flatten_config(run.config),
        numbers=tuple(_result_points(run, options.columns)),
        files=summary.files,
        content_of_files=summary.content,
        curve=run.trained,
        datasets=tuple(_list_datasets(run)),
        checkpoint=checkpoint,
        start=run.start,
        end=run.end,
        project=options.project,
    )


def name_experiment(
    project: str, runs: Iterable[FinishedRun] = (), backbones: Iterable[str] = (), data: Iterable[str] = ()
) -> str:
    """Return `project: backbones on data` of a grid, or of runs."""
    names = ([*backbones, *(r.cell.backbone for r in runs)], [*data, *(r.cell.data for r in runs)])
    first, second = (", ".join(dict.fromkeys(n)) for n in names)
    return f"{project}: {first} on {second}"


def _cell_tags(run: FinishedRun) -> dict[str, str]:
    facts, cell = run.environment, run.cell
    tags = {k: str(getattr(cell, k)) for k in ("method", "backbone", "data", "seed")}
    tags |= {k: str(facts.get(k) or "") for k in ("run_key", "git_commit", "device")}
    commit = tags["git_commit"].rstrip("+")
    return tags | {"mlflow.source.name": "python -m compclip.train", "mlflow.source.git.commit": commit}


def _checkpoint_tags(run: FinishedRun, limit: float) -> dict[str, str]:
    folder = run.checkpoint
    small = folder is not None and sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) <= limit * MIB
    return {"checkpoint": str(folder or ""), "checkpoint_uploaded": str(small).lower()}


def flatten_config(config: dict[str, Any]) -> dict[str, str]:
    """Flatten the resolved configuration to dotted keys, the cell's own bare; a longer value ends with an ellipsis."""
    flat = {k.removeprefix("cell."): str(v) for k, v in flatten_keys(config).items() if v != {}}
    return {k: v if len(v) <= LIMIT else v[: LIMIT - 1] + "…" for k, v in flat.items()}


def _curve_points(trained: Trained) -> Iterator[MetricPoint]:
    """Yield loss curves as train/<term> with the file's own steps and times, speeds as system/<fact>.

    What share of the samples had a text or picture keeps its name, share/<part>.
    """
    for line in result_files.read_curve(trained):
        for key in (k for k in line if k not in NOT_LOGGED):
            group = "system/" if key in CURVE_OF_SYSTEM else "" if key.startswith(SHARE) else "train/"
            yield MetricPoint(f"{group}{key}", line[key], line["time"], line["step"])


def _result_points(run: FinishedRun, columns: Sequence[Column]) -> Iterator[MetricPoint]:
    """Yield results as <benchmark>/<metric>, whole-benchmark numbers as score/<benchmark>, facts as system/<fact>."""
    for result in run.results.values():
        for metric, value in result.metrics.items():
            name = f"{result.benchmark}/{metric}".replace("@", "_at_")  # MLflow refuses @
            yield MetricPoint(name, value, run.end, 0, result.benchmark)
    for name, value in headline_scores.compute_means(run, columns).items():
        yield MetricPoint(name, value, run.end)
    for name, value in headline_scores.compute_headlines(run, columns).items():
        yield MetricPoint(f"{SCORE}{name}", value, run.end)
    for name, value in _system_facts(run).items():
        yield MetricPoint(f"system/{name}", value, run.end)


def _system_facts(run: FinishedRun) -> dict[str, float]:
    facts = {
        "peak_memory_mib": run.environment.get("peak_memory_mib"),
        "threads": run.environment.get("threads"),
        "train_seconds": run.environment.get("seconds"),
        "device_hours": descriptions.device_hours(run),
    }
    # each result file has the seconds of the whole pass over all benchmarks
    facts["evaluate_seconds"] = max((r.seconds for r in run.results.values()), default=None)
    return {name: value for name, value in facts.items() if value is not None}


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
    tags = {"kind": "study", "study": study.name, "method": study.method, "mlflow.source.name": _sweep_command(study)}
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
        numbers=tuple(_study_points(study, now)),
        files=files,
        content_of_files=fingerprint(*files.values()),
        start=start,
        end=now,
        status=status,
        project=options.project,
    )
    return [parent, *trials]


def _sweep_command(study: StudyFile) -> str:
    return f"python -m compclip.sweep --study {study.name}"


def _study_points(study: StudyFile, now: float) -> Iterator[MetricPoint]:
    for name, trial in best_trials(study).items():
        yield MetricPoint(f"best/{name}", trial.values[list(study.objectives).index(name)], now)
    for state in sorted({t.state for t in study.trials}):
        yield MetricPoint(f"study/{state}_trials", sum(t.state == state for t in study.trials), now)


def _make_trial_entry(
    study: StudyFile, trial: StudyTrial, experiment: str, options: EntryOptions, now: float
) -> MlflowEntry:
    summary = trial.run
    run = summary.run if summary else None
    tags = {"kind": "trial", "study": study.name, "trial": str(trial.number), "trial_state": trial.state}
    tags |= {k: str(v) for k, v in trial.facts.items()} | (_cell_tags(run) if run else {"method": study.method})
    tags |= {"mlflow.source.name": _sweep_command(study)}
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


# What in a store is one project's. In a store made before there were tags, what lies in an experiment of the project's
# name and has the marks that only `track` makes is the project's; it gets the tag when it is next brought up to date.


def has_project_name(experiment: str, project: str) -> bool:
    """Return whether an experiment has the project's name, letter by letter."""
    return experiment.startswith(f"{project}: ")


def owns_run(tags: Mapping[str, str], project: str) -> bool:
    """Return whether a run of such an experiment is the project's; one that somebody logged there by hand is not."""
    return tags.get(PROJECT, project) == project and bool(KEY in tags or "content" in tags)


def owns_version(tags: Mapping[str, str], project: str) -> bool:
    """Return whether a registered model's version, of a run of the project's, was made by it."""
    return tags[PROJECT] == project if PROJECT in tags else tags.keys() >= VERSION_TAGS


def owns_model(tags: Mapping[str, str], experiment: str) -> bool:
    """Return whether a registered model is that of an experiment of the project's."""
    return tags.get(MODEL_EXPERIMENT) == experiment

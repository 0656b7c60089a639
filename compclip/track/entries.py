"""What MLflow is to show: one entry for each MLflow run, made from runs and studies; nothing here knows MLflow.

A run's loss curve is read when it is logged, and not before: an entry that is logged already needs none.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from compclip.base.files import fingerprint
from compclip.report import tables
from compclip.report.details import flatten
from compclip.report.tables import Column
from compclip.runs import results
from compclip.runs.folder import SHARE, Trained
from compclip.runs.results import FinishedRun
from compclip.track import notes, overall
from compclip.track.reading import Brief
from compclip.track.studies import StudyFile, StudyTrial, best

# Book-keeping; the UI shows no tag that begins with `mlflow.`.
KEY, CONTENT, FILES, COMPLETE, PROJECT = (
    f"mlflow.compclip.{name}" for name in ("key", "content", "files", "complete", "project")
)
LIMIT = 500  # characters of a parameter
LAYOUT = 3  # raised when the same files are to be shown in another way
CURVE_OF_SYSTEM = ("samples_per_second", "matrix_share", "data_wait")
NOT_LOGGED = ("step", "time")
SCORE = "score/"
MIB = 2**20


class Value(NamedTuple):
    """One point of a metric; `dataset` names the data it was measured on, if there is one."""

    name: str
    value: Any
    time: float
    step: int = 0
    dataset: str = ""


class Dataset(NamedTuple):
    """Data that a run read, and for what."""

    name: str
    digest: str
    source: str
    context: str


@dataclass(frozen=True)
class Entry:
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
    numbers: tuple[Value, ...]
    files: dict[str, Path]
    content_of_files: str
    curve: Trained | None = None
    datasets: tuple[Dataset, ...] = ()
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
        shown = [LAYOUT, self.tags, self.params, numbers, self.datasets, self.status, self.checkpoint is not None]
        text = json.dumps(shown, sort_keys=True) + self.content_of_files
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def files_stamp(self) -> str:
        """The hash of its files and the way that they are shown in, whatever the grid's columns are."""
        return f"{LAYOUT}:{self.content_of_files}"

    @cached_property
    def values(self) -> list[Value]:
        """The loss curve, read from its file, and the numbers."""
        return [*(_steps(self.curve) if self.curve else ()), *self.numbers]

    @property
    def scores(self) -> dict[str, float]:
        """The report's summary and one number for each benchmark."""
        return {v.name.removeprefix(SCORE): v.value for v in self.numbers if v.name.startswith(SCORE)}

    @property
    def finite(self) -> list[Value]:
        """The values that MLflow can hold."""
        return [v for v in self.values if isinstance(v.value, (int, float)) and math.isfinite(v.value)]


@dataclass(frozen=True)
class Presentation:
    """How entries are made: the grid's experiment and cells, the report's columns, the upload limit."""

    experiment: str
    grid: frozenset[str]
    project: str
    columns: tuple[Column, ...] = ()
    checkpoint_mib: float = 64.0


def of_cells(briefs: Sequence[Brief], how: Presentation) -> list[Entry]:
    """An entry for each run."""
    runs = [brief.run for brief in briefs]
    places = dict.fromkeys((run.cell.backbone, run.cell.data) for run in runs)
    references = {place: notes.Reference(tables.reference(runs, *place)) for place in places}
    return [_of_cell(b, references[b.run.cell.backbone, b.run.cell.data], how) for b in briefs]


def _of_cell(brief: Brief, reference: notes.Reference, how: Presentation) -> Entry:
    run, name = brief.run, brief.name
    inside = run.cell.name in how.grid
    tags = {"kind": "cell", **_cell_tags(run)} | _checkpoint_tags(run, how.checkpoint_mib)
    kept = run.checkpoint if tags["checkpoint_uploaded"] == "true" else None
    return Entry(
        f"cell/{name}", name, how.experiment if inside else experiment(how.project, [run]), inside,
        tags, notes.of_cell(run, reference, how.columns), params(run.config), tuple(_numbers(run, how.columns)),
        brief.files, brief.content, run.trained, tuple(_datasets(run)), kept, run.start, run.end, project=how.project,
    )  # fmt: skip


def experiment(
    project: str, runs: Iterable[FinishedRun] = (), backbones: Iterable[str] = (), data: Iterable[str] = ()
) -> str:
    """`project: backbones on data` of a grid, or of runs."""
    names = ([*backbones, *(r.cell.backbone for r in runs)], [*data, *(r.cell.data for r in runs)])
    first, second = (", ".join(dict.fromkeys(n)) for n in names)
    return f"{project}: {first} on {second}"


def _cell_tags(run: FinishedRun) -> dict[str, str]:
    facts, cell = run.environment, run.cell
    found = {k: str(getattr(cell, k)) for k in ("method", "backbone", "data", "seed")}
    found |= {k: str(facts.get(k) or "") for k in ("run_key", "git_commit", "device")}
    commit = found["git_commit"].rstrip("+")
    return found | {"mlflow.source.name": "python -m compclip.train", "mlflow.source.git.commit": commit}


def _checkpoint_tags(run: FinishedRun, limit: float) -> dict[str, str]:
    folder = run.checkpoint
    small = folder is not None and sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) <= limit * MIB
    return {"checkpoint": str(folder or ""), "checkpoint_uploaded": str(small).lower()}


def params(config: dict[str, Any]) -> dict[str, str]:
    """The resolved configuration with dotted keys, the cell's own bare; a longer value ends with an ellipsis."""
    found = {k.removeprefix("cell."): str(v) for k, v in flatten(config).items() if v != {}}
    return {k: v if len(v) <= LIMIT else v[: LIMIT - 1] + "…" for k, v in found.items()}


def _steps(trained: Trained) -> Iterator[Value]:
    """Loss curves as train/<term> with the file's own steps and times, speeds as system/<fact>.

    What share of the samples had a text or picture keeps its name, share/<part>.
    """
    for line in results.read_curve(trained):
        for key in (k for k in line if k not in NOT_LOGGED):
            group = "system/" if key in CURVE_OF_SYSTEM else "" if key.startswith(SHARE) else "train/"
            yield Value(f"{group}{key}", line[key], line["time"], line["step"])


def _numbers(run: FinishedRun, columns: Sequence[Column]) -> Iterator[Value]:
    """Results as <benchmark>/<metric>, the report's whole-benchmark numbers as score/<benchmark>, machine facts as
    system/<fact>."""
    for result in run.results.values():
        for metric, value in result.metrics.items():
            name = f"{result.benchmark}/{metric}".replace("@", "_at_")  # MLflow refuses @
            yield Value(name, value, run.end, 0, result.benchmark)
    for name, value in overall.means(run, columns).items():
        yield Value(name, value, run.end)
    for name, value in overall.numbers(run, columns).items():
        yield Value(f"{SCORE}{name}", value, run.end)
    for name, value in _system(run).items():
        yield Value(f"system/{name}", value, run.end)


def _system(run: FinishedRun) -> dict[str, float]:
    facts = {"peak_memory_mib": run.environment.get("peak_memory_mib"), "threads": run.environment.get("threads"),
             "train_seconds": run.environment.get("seconds"), "device_hours": notes.device_hours(run)}  # fmt: skip
    # each result file has the seconds of the whole pass over all benchmarks
    facts["evaluate_seconds"] = max((r.seconds for r in run.results.values()), default=None)
    return {name: value for name, value in facts.items() if value is not None}


def _datasets(run: FinishedRun) -> Iterator[Dataset]:
    data = run.config.get("data")
    if run.curve and data:
        digest = run.environment.get("data_fingerprint")
        # without the fingerprint of its contents, the data set is known by what the configuration says of it
        digest = digest or "cfg-" + hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
        yield Dataset(run.cell.data, digest[:32], json.dumps(data), "training")
    for result in run.results.values():
        source = json.dumps({"benchmark": result.module, "counts": result.counts})
        yield Dataset(result.benchmark, result.fingerprint[:32] or "unknown", source, "evaluation")


def of_study(study: StudyFile, how: Presentation) -> list[Entry]:
    """A parent for the study, then an entry for each of its trials."""
    runs = [t.run.run for t in study.trials if t.run]
    where = experiment(how.project, runs) if runs else f"{how.project}: studies"
    key, now = f"study/{study.name}", (study.path / "trials.json").stat().st_mtime
    trials = [_of_trial(study, trial, where, how, now) for trial in study.trials]
    tags = {"kind": "study", "study": study.name, "method": study.method, "mlflow.source.name": _sweep(study)}
    kept = {p.name: p for p in sorted(study.path.iterdir()) if p.suffix in (".json", ".yaml", ".html", ".csv")}
    start = min((t.start for t in trials), default=now)
    status = "RUNNING" if any(t.status == "RUNNING" for t in trials) else "FINISHED"
    parent = Entry(key, f"study {study.name}", where, True, tags, notes.of_study(study), {"method": study.method},
                   tuple(_study_numbers(study, now)), kept, fingerprint(*kept.values()), start=start, end=now,
                   status=status, project=how.project)  # fmt: skip
    return [parent, *trials]


def _sweep(study: StudyFile) -> str:
    return f"python -m compclip.sweep --study {study.name}"


def _study_numbers(study: StudyFile, now: float) -> Iterator[Value]:
    for name, trial in best(study).items():
        yield Value(f"best/{name}", trial.values[list(study.objectives).index(name)], now)
    for state in sorted({t.state for t in study.trials}):
        yield Value(f"study/{state}_trials", sum(t.state == state for t in study.trials), now)


def _of_trial(study: StudyFile, trial: StudyTrial, where: str, how: Presentation, now: float) -> Entry:
    brief = trial.run
    run = brief.run if brief else None
    tags = {"kind": "trial", "study": study.name, "trial": str(trial.number), "trial_state": trial.state}
    tags |= {k: str(v) for k, v in trial.facts.items()} | (_cell_tags(run) if run else {"method": study.method})
    tags |= {"mlflow.source.name": _sweep(study)}
    end = run.end if run else trial.ended or now
    start = run.start if run else trial.started or end
    steps = [
        Value(f"intermediate/{n}", v, end, step)
        for step, values in trial.intermediate.items()
        for n, v in zip(study.objectives, values, strict=False)
    ]
    objectives = [Value(f"objective/{n}", v, end) for n, v in zip(study.objectives, trial.values, strict=False)]
    status = {"complete": "FINISHED", "pruned": "KILLED", "fail": "FAILED", "failed": "FAILED"}
    return Entry(
        f"trial/{study.name}/{trial.number}", f"{study.name} {trial.number:03d}", where, True, tags,
        notes.of_trial(study, trial), params(run.config if run else {}) | params(trial.params),
        (*objectives, *steps, *(_numbers(run, how.columns) if run else ())), brief.files if brief else {},
        brief.content if brief else "", run.trained if run else None, tuple(_datasets(run)) if run else (), None,
        start, end, status.get(trial.state, "RUNNING"), f"study/{study.name}", how.project,
    )  # fmt: skip

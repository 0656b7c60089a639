"""What MLflow is to show: one entry for each MLflow run, made from records and studies; nothing here knows MLflow."""

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
from compclip.report.collect import Run
from compclip.report.details import flatten
from compclip.report.tables import Column
from compclip.track import notes, overall
from compclip.track.records import Record, Study, Trial, best, files

# Book-keeping; the UI shows no tag that begins with `mlflow.`.
KEY, CONTENT, COMPLETE = (f"mlflow.compclip.{name}" for name in ("key", "content", "complete"))
LIMIT = 500  # characters of a parameter
LAYOUT = 2  # raised when the same files are to be shown in another way
CURVE_OF_SYSTEM = ("samples_per_second", "matrix_share", "data_wait")
NOT_LOGGED = ("step", "time")
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
    """One MLflow run as it should be; `at_home`: it belongs in `experiment` and is moved there."""

    key: str
    name: str
    experiment: str
    at_home: bool
    tags: dict[str, str]
    note: str
    params: dict[str, str]
    values: tuple[Value, ...]
    files: tuple[Path, ...]
    datasets: tuple[Dataset, ...] = ()
    checkpoint: Path | None = None
    start: float = 0.0
    end: float = 0.0
    status: str = "FINISHED"
    parent: str = ""

    @cached_property
    def content(self) -> str:
        """A hash of what cannot be changed in an MLflow run once it is logged; times and the note are not in it."""
        values = [(v.name, repr(v.value), v.step) for v in self.values]
        shown = [LAYOUT, self.tags, self.params, values, self.datasets, self.status, self.checkpoint is not None]
        text = json.dumps(shown, sort_keys=True) + fingerprint(*self.files)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def finite(self) -> list[Value]:
        """The values that MLflow can hold."""
        return [v for v in self.values if isinstance(v.value, (int, float)) and math.isfinite(v.value)]


@dataclass(frozen=True)
class Shown:
    """How entries are made: the grid's experiment and cells, the report's columns, the upload limit."""

    experiment: str
    grid: frozenset[str]
    project: str
    columns: tuple[Column, ...] = ()
    checkpoint_mib: float = 64.0


def of_cells(records: Sequence[Record], shown: Shown) -> list[Entry]:
    """An entry for each run directory."""
    runs = [r.run for r in records]
    return [_of_cell(record, runs, shown) for record in records]


def _of_cell(record: Record, runs: Sequence[Run], shown: Shown) -> Entry:
    inside = record.cell.name in shown.grid
    name = record.path.name
    tags = {"kind": "cell", **_cell_tags(record)} | _checkpoint_tags(record, shown.checkpoint_mib)
    kept = record.checkpoint if tags["checkpoint_uploaded"] == "true" else None
    return Entry(
        f"cell/{name}", name, shown.experiment if inside else experiment(shown.project, [record.run]), inside,
        tags, notes.of_cell(record, runs, shown.columns), params(record.run.config),
        tuple(_values(record, shown.columns)), tuple(files(record.path)), tuple(_datasets(record.run)), kept,
        record.start, record.end,
    )  # fmt: skip


def experiment(project: str, runs: Iterable[Run] = (), backbones: Iterable[str] = (), data: Iterable[str] = ()) -> str:
    """`project: backbones on data` of a grid, or of runs."""
    names = ([*backbones, *(r.cell.backbone for r in runs)], [*data, *(r.cell.data for r in runs)])
    first, second = (", ".join(dict.fromkeys(n)) for n in names)
    return f"{project}: {first} on {second}"


def _cell_tags(record: Record) -> dict[str, str]:
    facts, cell = record.run.environment, record.cell
    found = {k: str(getattr(cell, k)) for k in ("method", "backbone", "data", "seed")}
    found |= {k: str(facts.get(k) or "") for k in ("run_key", "git_commit", "device")}
    commit = found["git_commit"].rstrip("+")
    return found | {"mlflow.source.name": "python -m compclip.train", "mlflow.source.git.commit": commit}


def _checkpoint_tags(record: Record, limit: float) -> dict[str, str]:
    folder = record.checkpoint
    small = folder is not None and sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) <= limit * MIB
    return {"checkpoint": str(folder or ""), "checkpoint_uploaded": str(small).lower()}


def params(config: dict[str, Any]) -> dict[str, str]:
    """The resolved configuration with dotted keys, the cell's own bare; a longer value ends with an ellipsis."""
    found = {k.removeprefix("cell."): str(v) for k, v in flatten(config).items() if v != {}}
    return {k: v if len(v) <= LIMIT else v[: LIMIT - 1] + "…" for k, v in found.items()}


def _values(record: Record, columns: Sequence[Column]) -> Iterator[Value]:
    """Loss curves as train/<term> with the file's own steps and times, results as <benchmark>/<metric>,
    the report's whole-benchmark numbers as score/<benchmark>, machine facts as system/<fact>."""
    for line in record.run.curve:
        for key in (k for k in line if k not in NOT_LOGGED):
            group = "system" if key in CURVE_OF_SYSTEM else "train"
            yield Value(f"{group}/{key}", line[key], line["time"], line["step"])
    for result in record.run.results.values():
        for metric, value in result.metrics.items():
            name = f"{result.benchmark}/{metric}".replace("@", "_at_")  # MLflow refuses @
            yield Value(name, value, record.end, 0, result.benchmark)
    for name, value in overall.means(record.run, columns).items():
        yield Value(name, value, record.end)
    for name, value in overall.numbers(record.run, columns).items():
        yield Value(f"score/{name}", value, record.end)
    for name, value in _system(record.run).items():
        yield Value(f"system/{name}", value, record.end)


def _system(run: Run) -> dict[str, float]:
    facts = {"peak_memory_mib": run.environment.get("peak_memory_mib"), "threads": run.environment.get("threads"),
             "train_seconds": run.environment.get("seconds")}  # fmt: skip
    # each result file has the seconds of the whole pass over all benchmarks
    facts["evaluate_seconds"] = max((r.seconds for r in run.results.values()), default=None)
    return {name: value for name, value in facts.items() if value is not None}


def _datasets(run: Run) -> Iterator[Dataset]:
    data = run.config.get("data")
    if run.curve and data:
        digest = run.environment.get("data_fingerprint")
        # without the fingerprint of its contents, the data set is known by what the configuration says of it
        digest = digest or "cfg-" + hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
        yield Dataset(run.cell.data, digest[:32], json.dumps(data), "training")
    for result in run.results.values():
        source = json.dumps({"benchmark": result.module, "counts": result.counts})
        yield Dataset(result.benchmark, result.fingerprint[:32] or "unknown", source, "evaluation")


def of_study(study: Study, shown: Shown) -> list[Entry]:
    """A parent for the study, then an entry for each of its trials."""
    records = [t.record.run for t in study.trials if t.record]
    where = experiment(shown.project, records) if records else f"{shown.project}: studies"
    key, now = f"study/{study.name}", (study.path / "trials.json").stat().st_mtime
    trials = [_of_trial(study, trial, where, shown, now) for trial in study.trials]
    tags = {"kind": "study", "study": study.name, "method": study.method, "mlflow.source.name": _sweep(study)}
    kept = tuple(p for p in sorted(study.path.iterdir()) if p.suffix in (".json", ".yaml", ".html", ".csv"))
    start = min((t.start for t in trials), default=now)
    status = "RUNNING" if any(t.status == "RUNNING" for t in trials) else "FINISHED"
    parent = Entry(key, f"study {study.name}", where, True, tags, notes.of_study(study), {"method": study.method},
                   tuple(_study_values(study, now)), kept, start=start, end=now, status=status)  # fmt: skip
    return [parent, *trials]


def _sweep(study: Study) -> str:
    return f"python -m compclip.sweep --study {study.name}"


def _study_values(study: Study, now: float) -> Iterator[Value]:
    for name, trial in best(study).items():
        yield Value(f"best/{name}", trial.values[list(study.objectives).index(name)], now)
    for state in sorted({t.state for t in study.trials}):
        yield Value(f"study/{state}_trials", sum(t.state == state for t in study.trials), now)


def _of_trial(study: Study, trial: Trial, where: str, shown: Shown, now: float) -> Entry:
    record = trial.record
    tags = {"kind": "trial", "study": study.name, "trial": str(trial.number), "trial_state": trial.state}
    tags |= {k: str(v) for k, v in trial.facts.items()} | (_cell_tags(record) if record else {"method": study.method})
    tags |= {"mlflow.source.name": _sweep(study)}
    end = record.end if record else trial.ended or now
    start = record.start if record else trial.started or end
    first = next(iter(study.objectives), "")
    steps = [Value(f"intermediate/{first}", v, end, step) for step, v in trial.intermediate.items()]
    objectives = [Value(f"objective/{n}", v, end) for n, v in zip(study.objectives, trial.values, strict=False)]
    run_values = _values(record, shown.columns) if record else ()
    status = {"complete": "FINISHED", "pruned": "KILLED", "fail": "FAILED", "failed": "FAILED"}
    return Entry(
        f"trial/{study.name}/{trial.number}", f"{study.name} {trial.number:03d}", where, True, tags,
        notes.of_trial(study, trial), params(record.run.config if record else {}) | params(trial.params),
        (*objectives, *steps, *run_values), tuple(files(record.path)) if record else (),
        tuple(_datasets(record.run)) if record else (), None, start, end,
        status.get(trial.state, "RUNNING"), f"study/{study.name}",
    )  # fmt: skip

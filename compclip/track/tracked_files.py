"""What `track` reads: finished runs in brief, each parsed once, and studies; nothing here knows MLflow.

What a run's files held is kept beside the store as long as they are the same: path, size, time of change and inode. One
that changed a moment ago is read again next time, since a second change within a tick of the clock would not show.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from compclip.base import json_text
from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_json, read_text, write_atomic
from compclip.config.cell import Cell
from compclip.runs import result_files, run_folder
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import RunFolder, Trained

MOMENT_NS = 2_000_000_000  # file systems of today tick at least once in it


@dataclass(frozen=True)
class RunSummary:
    """A run without items and of its curve the last step alone; `content`: a hash of its files but the checkpoint."""

    run: FinishedRun
    content: str

    @property
    def name(self) -> str:
        """A cell's name, from where its run is published."""
        return cell_name(self.run.trained)

    @property
    def files(self) -> dict[str, Path]:
        """The files that `content` speaks of, by the names that MLflow gives them."""
        paths = result_files.list_files(self.run.trained, self.run.results_folder)
        return {f"{run_folder.RESULTS}/{p.name}" if p.parent == self.run.results_folder else p.name: p for p in paths}


class SummaryCache:
    """The briefs of earlier calls; without a file, of this one alone."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._cached_runs = _read_cache(file) if file else {}
        self._changed = False

    def summary(self, trained: Trained, scores: Path) -> RunSummary:
        """Return a finished run. Raises UserError for a file that is none of a run's."""
        if cached := self._find_unchanged(trained, scores):
            return RunSummary(_run_from_json(cached["run"], trained, scores), cached["content"])
        started_ns, files = time.time_ns(), result_files.list_files(trained, scores)
        stamp = _file_stamps(files)
        run = result_files.read_finished_run(trained, scores)
        results = {name: replace(result, items={}) for name, result in run.results.items()}
        summary = RunSummary(replace(run, curve=run.curve[-1:], results=results), fingerprint(*files))
        if all(changed < started_ns - MOMENT_NS for _, _, changed, _ in stamp):
            path = str(trained.path)
            line = {"path": path, "stamp": stamp, "content": summary.content, "run": _run_to_json(summary.run)}
            self._cached_runs[path], self._changed = line, True
        return summary

    def content(self, trained: Trained, scores: Path) -> str:
        """Return the brief's hash alone: nothing is parsed for it."""
        cached = self._find_unchanged(trained, scores)
        return cached["content"] if cached else fingerprint(*result_files.list_files(trained, scores))

    def save(self) -> None:
        """Write what is new for the next call; runs that are gone are forgotten."""
        if self._file and self._changed:
            code = {"code": _code_fingerprint()}
            lines = [line for path, line in self._cached_runs.items() if Trained(Path(path)).config.is_file()]
            write_atomic(self._file, "".join(json.dumps(line, default=sorted) + "\n" for line in (code, *lines)))

    def _find_unchanged(self, trained: Trained, scores: Path) -> dict[str, Any] | None:
        line = self._cached_runs.get(str(trained.path))
        return line if line and line["stamp"] == _file_stamps(result_files.list_files(trained, scores)) else None


def list_published(root: Path) -> Iterator[tuple[Trained, Path]]:
    """List every published run and the folder of its results, sorted by name."""
    for path in run_folder.published_folders(root / run_folder.RUNS):
        yield Trained(path), root / run_folder.RESULTS / path.parent.name / path.name


def cell_name(published: Trained) -> str:
    """Return method-backbone-data-seed."""
    return f"{published.path.parent.name}-{published.path.name}"


def _read_cache(file: Path) -> dict[str, dict[str, Any]]:
    """Read the lines of the file by run; none where it is missing or damaged, or other code wrote it."""
    try:
        code, *lines = (json_text.parse_json(line, str(file)) for line in read_text(file).splitlines())
        return {line["path"]: line for line in lines} if code["code"] == _code_fingerprint() else {}
    except (UserError, ValueError, KeyError, TypeError):
        return {}


def _code_fingerprint() -> str:
    """Return the fingerprint of the code that reads runs."""
    return fingerprint(Path(__file__), Path(result_files.__file__))


def _file_stamps(files: list[Path]) -> list[list[Any]]:
    stats = ((path, os.stat(path)) for path in files)
    return [[str(path), s.st_size, s.st_mtime_ns, s.st_ino] for path, s in stats]


def _run_to_json(run: FinishedRun) -> dict[str, Any]:
    results = {name: asdict(result) for name, result in run.results.items()}
    return {"cell": run.cell.plain, "config": run.config, "curve": run.curve, "environment": run.environment,
            "results": results}  # fmt: skip


def _run_from_json(raw: dict[str, Any], trained: Trained, scores: Path) -> FinishedRun:
    results = {}
    for name, result in raw["results"].items():
        sets = {key: frozenset(result[key]) for key in ("lower", "scores")}
        results[name] = Result(**result | sets | {"headline": tuple(result["headline"])})
    return FinishedRun(trained, scores, Cell(**raw["cell"]), raw["config"], raw["curve"], raw["environment"], results)


@dataclass(frozen=True)
class StudyTrial:
    """One trial of a study: what was tried, what came of it, and its run where that was finished."""

    number: int
    state: str
    params: dict[str, Any]
    values: tuple[float, ...]
    run: RunSummary | None
    facts: dict[str, Any]
    intermediate: dict[int, tuple[float, ...]] = field(default_factory=dict)  # of the objectives, by step
    started: float | None = None  # seconds since the epoch
    ended: float | None = None


@dataclass(frozen=True)
class StudyFile:
    """studies/<name>/ of a sweep; `objectives` maps each metric to whether more of it is better.

    `cosines`: those whose values are no shares.
    """

    path: Path
    name: str
    method: str
    objectives: dict[str, bool]
    trials: tuple[StudyTrial, ...]
    cosines: frozenset[str] = frozenset()

    def name_values(self, trial: StudyTrial) -> list[tuple[str, float]]:
        """Return a trial's values by their objectives."""
        return list(zip(self.objectives, trial.values, strict=False))


def read_study(path: Path, summaries: SummaryCache) -> StudyFile:
    """Read a study from its trials.json. Raises UserError where a field is missing."""
    file = path / "trials.json"
    raw = read_json(file)
    try:
        objectives = [{"metric": o} if isinstance(o, str) else o for o in raw["objectives"]]
        directions = {o["metric"]: o.get("direction", "maximize") != "minimize" for o in objectives}
        trials = tuple(_parse_trial(trial, path.parent.parent, summaries) for trial in raw["trials"])
        cosines = frozenset(o["metric"] for o in objectives if o.get("score"))
        return StudyFile(path, str(raw["study"]), str(raw["method"]), directions, trials, cosines)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{file}: not a study's trials ({error!r}); run the sweep again") from error


def _parse_trial(raw: dict[str, Any], root: Path, summaries: SummaryCache) -> StudyTrial:
    """Return a trial, with its run in the store where that is finished."""
    run = None
    if raw.get("folder"):
        folder = RunFolder(root / raw["folder"])
        folder.check()
        if folder.finished:
            run = summaries.summary(folder.final, folder.results or folder.scores("none"))
    facts = {k: raw[k] for k in ("run_key", "folder", "reason") if raw.get(k)}
    steps = {}
    for step, values in (raw.get("intermediate") or {}).items():
        # a study of an earlier version has the first objective's value alone
        steps[int(step)] = tuple(map(float, values if isinstance(values, list) else [values]))
    started, ended = (raw.get(key) and datetime.fromisoformat(raw[key]).timestamp() for key in ("started", "ended"))
    return StudyTrial(
        int(raw["number"]),
        str(raw["state"]).lower(),
        dict(raw["params"]),
        tuple(map(float, raw.get("values") or ())),
        run,
        facts | ({"paper": "true"} if raw.get("paper") else {}),
        steps,
        started,
        ended,
    )


def best_trials(study: StudyFile) -> dict[str, StudyTrial]:
    """Return the best complete trial for each objective, the earlier one of equals."""
    complete = [t for t in study.trials if t.state == "complete" and len(t.values) == len(study.objectives)]
    best = {}
    for i, (name, maximize) in enumerate(study.objectives.items()):
        if complete:
            best[name] = max(complete, key=lambda t: ((t.values[i] if maximize else -t.values[i]), -t.number))  # noqa: B023
    return best

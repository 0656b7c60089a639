"""What an exporter gets: cells of the grid and trials of studies, with the names and values that MLflow has.

Finished ones have curve and results, those under way or stopped their curve so far.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from compclip.config import grid, read
from compclip.config.sections import Params
from compclip.runs import status
from compclip.runs.run_folder import Published, RunFolder
from compclip.track import entries, live_runs, tracked_files
from compclip.track.entries import EntryOptions, MetricPoint, MlflowEntry
from compclip.track.live_runs import LiveListing, LiveRun, Position
from compclip.track.tracked_files import StudyFile, SummaryCache


@dataclass(frozen=True)
class ExportedRun:
    """A cell or a trial: `params` have dotted names; `tags` say its kind, its axes or study, run key and state.

    `content` is a hash of 16 digits: another one where a parameter, a result or the curve is another.
    """

    name: str
    params: dict[str, str]
    tags: dict[str, str]
    content: str
    read_points: Callable[[], list[MetricPoint]]

    @cached_property
    def points(self) -> list[MetricPoint]:
        """Finite values in the order of their steps: the curve, read from its file, then results at its last step."""
        return self.read_points()


def list_exported_runs(params_path: str | Path, root: Path) -> Iterator[ExportedRun]:
    """Yield the grid's cells below `root` in the order of the grid, then the trials of its studies.

    A cell that is trained again is the run under way, not the one that is published.
    """
    params, summaries = read.load_params(params_path), SummaryCache()
    cells = grid.list_cells(params)
    live = {run.name: run for run in LiveListing(root).poll() if run.has_begun and _has_curve(run)}
    places = [Published(root, cell) for cell in cells if cell.name not in live]
    finished = [summaries.summary(p.trained, p.results) for p in places if p.trained.environment.is_file()]
    columns = entries.select_columns([cell.run for cell in finished], params.report.columns)
    options = EntryOptions("", frozenset(cell.name for cell in cells), "", columns)
    exported = {entry.name: _export_entry(entry) for entry in entries.make_cell_entries(finished, options)}
    exported |= {name: _export_live(run) for name, run in live.items()}
    yield from (exported[cell.name] for cell in cells if cell.name in exported)
    for file in sorted((root / "studies").glob("*/trials.json")):
        yield from _export_study(tracked_files.read_study(file.parent, summaries), params)


def _has_curve(run: LiveRun) -> bool:
    return run.state != status.DAMAGED and run.run.folder.progress is not None


def _export_live(run: LiveRun) -> ExportedRun:
    def read_points() -> list[MetricPoint]:
        return _select_finite(entries.curve_points(run.read_rows(Position())[0]))

    tags = {"kind": "cell", **entries.cell_tags(run.run.cell, run.facts), "state": run.state}
    params = entries.flatten_config(dict(run.run.resolved))
    return ExportedRun(run.name, params, tags, _hash_content([*run.signature, params]), read_points)


def _export_entry(entry: MlflowEntry, name: str = "", running: RunFolder | None = None) -> ExportedRun:
    """Export a cell or a trial; `running` is the folder of a trial without a finished run."""
    log = running.progress if running else None
    size = [log.stat().st_ino, log.stat().st_size] if log else []

    def read_points() -> list[MetricPoint]:
        curve = entries.curve_points(live_runs.read_new_rows(log, Position())[0])
        points, results = _select_finite([*curve, *entry.values]), set(entry.numbers)
        last_step = max((point.step for point in points), default=0)
        return [point._replace(step=point.step or last_step) if point in results else point for point in points]

    numbers = [(point.name, repr(point.value)) for point in entry.numbers]
    content = _hash_content([numbers, entry.params, entry.content_of_files, *size])
    return ExportedRun(name or entry.name, entry.params, entry.tags, content, read_points)


def _export_study(study: StudyFile, params: Params) -> Iterator[ExportedRun]:
    """Yield the trials of a study that have a curve or a value, each as `study-number`."""
    columns = entries.select_columns([t.run.run for t in study.trials if t.run], params.report.columns)
    trial_entries = entries.make_study_entries(study, EntryOptions("", frozenset(), "", columns))[1:]
    for trial, entry in zip(study.trials, trial_entries, strict=True):
        folder = trial.facts.get("folder")
        running = RunFolder(study.path.parent.parent / folder) if folder and not trial.run else None
        if trial.run or entry.numbers or (running and running.progress):
            yield _export_entry(entry, f"{study.name}-{trial.number:03d}", running)


def _select_finite(points: Iterable[MetricPoint]) -> list[MetricPoint]:
    return [point for point in points if point.is_finite]


def _hash_content(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

"""Finished runs in brief, each parsed once: what its files held is kept beside the store as long as they are the same.

A file is the same where path, size, time of change and inode are. One that changed a moment ago is read again next
time, since a second change within a tick of the clock would not show.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from compclip.base import json_text
from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_text, write_atomic
from compclip.config.grid import Cell
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
        self._cached_runs: dict[str, dict[str, Any]] = dict(_read_cache(file)) if file else {}
        self._changed = False

    def summary(self, trained: Trained, scores: Path) -> RunSummary:
        """Return a finished run. Raises UserError for a file that is none of a run's."""
        cached = self._find_unchanged(trained, scores)
        if cached:
            return RunSummary(_run_from_json(cached["run"], trained, scores), cached["content"])
        started_ns, files = time.time_ns(), result_files.list_files(trained, scores)
        stamp = _file_stamps(files)
        summary = RunSummary(_drop_items(result_files.read_finished_run(trained, scores)), fingerprint(*files))
        if all(changed < started_ns - MOMENT_NS for _, _, changed, _ in stamp):
            line = {
                "path": str(trained.path),
                "stamp": stamp,
                "content": summary.content,
                "run": _run_to_json(summary.run),
            }
            self._cached_runs[str(trained.path)], self._changed = line, True
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


def find_in_store(at: RunFolder) -> tuple[Trained, Path] | None:
    """Find a run in the store and the folder of its last job's results; None before it is finished.

    Raises as `check`.
    """
    at.check()
    return (at.final, at.results or at.scores("none")) if at.finished else None


def _read_cache(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read the lines of the file by run; none where it is missing or damaged, or other code wrote it."""
    try:
        code, *lines = (json_text.parse_json(line, str(file)) for line in read_text(file).splitlines())
        if code["code"] == _code_fingerprint():
            yield from ((line["path"], line) for line in lines)
    except (UserError, ValueError, KeyError, TypeError):
        return


def _code_fingerprint() -> str:
    """Return the fingerprint of the code that reads runs."""
    return fingerprint(Path(__file__), Path(result_files.__file__))


def _file_stamps(files: list[Path]) -> list[list[Any]]:
    stats = ((path, os.stat(path)) for path in files)
    return [[str(path), s.st_size, s.st_mtime_ns, s.st_ino] for path, s in stats]


def _drop_items(run: FinishedRun) -> FinishedRun:
    return replace(run, curve=run.curve[-1:], results={k: replace(r, items={}) for k, r in run.results.items()})


def _run_to_json(run: FinishedRun) -> dict[str, Any]:
    results_json = {name: asdict(result) for name, result in run.results.items()}
    return {"cell": run.cell.plain, "config": run.config, "curve": run.curve, "environment": run.environment,
            "results": results_json}  # fmt: skip


def _run_from_json(raw: dict[str, Any], trained: Trained, scores: Path) -> FinishedRun:
    run_results = {name: _result_from_json(result) for name, result in raw["results"].items()}
    return FinishedRun(
        trained, scores, Cell(**raw["cell"]), raw["config"], raw["curve"], raw["environment"], run_results
    )


def _result_from_json(raw: dict[str, Any]) -> Result:
    return Result(
        **raw | {name: frozenset(raw[name]) for name in ("lower", "scores")} | {"headline": tuple(raw["headline"])}
    )

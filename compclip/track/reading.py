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
from compclip.config.cell import Cell
from compclip.runs import folder, results
from compclip.runs.folder import Folder, Trained
from compclip.runs.results import FinishedRun, Result

MOMENT_NS = 2_000_000_000  # file systems of today tick at least once in it


@dataclass(frozen=True)
class Brief:
    """A run without items and of its curve the last step alone; `content`: a hash of its files but the checkpoint."""

    run: FinishedRun
    content: str

    @property
    def name(self) -> str:
        """A cell's name, from where its run is published."""
        return name(self.run.trained)

    @property
    def files(self) -> dict[str, Path]:
        """The files that `content` speaks of, by the names that MLflow gives them."""
        found = results.files(self.run.trained, self.run.results_folder)
        return {f"{folder.RESULTS}/{p.name}" if p.parent == self.run.results_folder else p.name: p for p in found}


class Memory:
    """The briefs of earlier calls; without a file, of this one alone."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known: dict[str, dict[str, Any]] = dict(_kept(file)) if file else {}
        self._new = False

    def brief(self, trained: Trained, scores: Path) -> Brief:
        """A finished run. Raises UserError for a file that is none of a run's."""
        same = self._same(trained, scores)
        if same:
            return Brief(_run(same["run"], trained, scores), same["content"])
        before, files = time.time_ns(), results.files(trained, scores)
        stamp = _stamp(files)
        found = Brief(_shortened(results.read(trained, scores)), fingerprint(*files))
        if all(changed < before - MOMENT_NS for _, _, changed, _ in stamp):
            line = {"path": str(trained.path), "stamp": stamp, "content": found.content, "run": _plain(found.run)}
            self._known[str(trained.path)], self._new = line, True
        return found

    def content(self, trained: Trained, scores: Path) -> str:
        """The brief's hash alone: nothing is parsed for it."""
        same = self._same(trained, scores)
        return same["content"] if same else fingerprint(*results.files(trained, scores))

    def keep(self) -> None:
        """Write what is new for the next call; runs that are gone are forgotten."""
        if self._file and self._new:
            code = {"code": _code()}
            lines = [line for path, line in self._known.items() if Trained(Path(path)).config.is_file()]
            write_atomic(self._file, "".join(json.dumps(line, default=sorted) + "\n" for line in (code, *lines)))

    def _same(self, trained: Trained, scores: Path) -> dict[str, Any] | None:
        line = self._known.get(str(trained.path))
        return line if line and line["stamp"] == _stamp(results.files(trained, scores)) else None


def published(root: Path) -> Iterator[tuple[Trained, Path]]:
    """Every published run and the folder of its results, sorted by name."""
    for path in folder.published(root / folder.RUNS):
        yield Trained(path), root / folder.RESULTS / path.parent.name / path.name


def name(published: Trained) -> str:
    """method-backbone-data-seed."""
    return f"{published.path.parent.name}-{published.path.name}"


def in_store(at: Folder) -> tuple[Trained, Path] | None:
    """A run in the store and the folder of its last job's results; None before it is finished. Raises as `check`."""
    at.check()
    return (at.final, at.results or at.scores("none")) if at.finished else None


def _kept(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines of the file by run; none where it is missing or damaged, or other code wrote it."""
    try:
        code, *lines = (json_text.value(line, str(file)) for line in read_text(file).splitlines())
        if code["code"] == _code():
            yield from ((line["path"], line) for line in lines)
    except (UserError, ValueError, KeyError, TypeError):
        return


def _code() -> str:
    """What decides what is read of a run."""
    return fingerprint(Path(__file__), Path(results.__file__))


def _stamp(files: list[Path]) -> list[list[Any]]:
    found = ((path, os.stat(path)) for path in files)
    return [[str(path), s.st_size, s.st_mtime_ns, s.st_ino] for path, s in found]


def _shortened(run: FinishedRun) -> FinishedRun:
    return replace(run, curve=run.curve[-1:], results={k: replace(r, items={}) for k, r in run.results.items()})


def _plain(run: FinishedRun) -> dict[str, Any]:
    parts = {name: asdict(result) for name, result in run.results.items()}
    return {"cell": run.cell.plain, "config": run.config, "curve": run.curve, "environment": run.environment,
            "results": parts}  # fmt: skip


def _run(raw: dict[str, Any], trained: Trained, scores: Path) -> FinishedRun:
    found = {name: _result(result) for name, result in raw["results"].items()}
    return FinishedRun(trained, scores, Cell(**raw["cell"]), raw["config"], raw["curve"], raw["environment"], found)


def _result(raw: dict[str, Any]) -> Result:
    return Result(**raw | {name: frozenset(raw[name]) for name in ("lower", "scores")})

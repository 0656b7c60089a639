"""Evaluations by what they depend on: what somebody scored already is not scored again.

Imports no torch: publishing results that are there costs nothing of it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import links
from compclip.base.files import beside, fingerprint, write_json
from compclip.base.names import Name
from compclip.config.how import Benchmark as Section
from compclip.config.how import How
from compclip.evaluate import fingerprints
from compclip.runs import folder as folders
from compclip.runs import store
from compclip.runs.folder import Folder, Trained

if TYPE_CHECKING:
    from compclip.config.cell import Cell
    from compclip.config.sections import Params
    from compclip.runs.store import StoredRun


@dataclass(frozen=True)
class Task:
    """What checkpoints are scored on, and how; `code` is the fingerprint of what scores them."""

    sections: Mapping[str, Section]
    how: How
    code: str
    root: Path = Path(".")

    @functools.cached_property
    def parts(self) -> list:
        """What an evaluation depends on besides the weights."""
        scored = {name: [s.benchmark or name, self._fingerprint(name)] for name, s in sorted(self.sections.items())}
        return [scored, self.how.recorded(), self.code]

    def _fingerprint(self, name: str) -> str:
        return fingerprints.of(Name(name, "benchmark"), self.sections[name], self.root)

    def identity(self, weights: str) -> str:
        """Equal for equal results: the weights' fingerprint, benchmarks, the way they are scored and code."""
        return hashlib.sha256(json.dumps([weights, *self.parts]).encode()).hexdigest()[:16]


def task(params: Params, root: Path = Path(".")) -> Task:
    """The evaluation that params.yaml asks for."""
    from compclip.config import plan

    names = params.evaluate.benchmarks
    code = plan.evaluation_code(params, names)
    return Task({n: params.benchmarks[n] for n in names}, params.evaluate.how, code, root)


def planned(document: Mapping[str, Any], root: Path = Path(".")) -> Task:
    """The evaluation that a plan file asks for."""
    sections = {name: Section(**section) for name, section in document["benchmarks"].items()}
    return Task(sections, How(**document["how"]), document["code"], root)


def weights_of(trained: Trained) -> str:
    """The fingerprint of a finished training's weights, as its own files have it."""
    found = trained.facts().get("weights_fingerprint")
    if found:
        return str(found)
    return fingerprint(trained.checkpoint)


def find(asked: Task, folder: Folder) -> Path | None:
    """The results that a finished run has, where they are those that the task would give.

    Raises UserError where not all of the run is its own.
    """
    folder.check()
    if not folder.finished:
        return None
    made = folder.scores(asked.identity(weights_of(folder.final)))
    return made if made.is_dir() else None


def keep(asked: Task, folder: Folder, documents: Mapping[str, dict]) -> Path:
    """Leave results with a finished run: the folder is complete or not there. Raises UserError as `find`."""
    folder.check()  # once more: scoring takes long
    made = folder.scores(asked.identity(weights_of(folder.final)))
    fresh = beside(made, "new")
    try:
        write(documents, fresh)
        with contextlib.suppress(OSError):  # somebody else's, made at the same time
            os.replace(fresh, made)
    finally:
        links.remove(fresh)
    return made


def mark(folder: Folder, made: Path) -> None:
    """Say that these are the results that the run's job left."""
    write_json(folder.scored, {"identity": made.name})


def scored(params: Params, stored: StoredRun) -> bool:
    """Whether a run is finished and has the results that an evaluation would give now, which are then the job's."""
    made = find(task(params, stored.root), stored.folder)
    if made:
        mark(stored.folder, made)
    return made is not None


def publish(made: Path, cell: Cell, root: Path) -> None:
    """Link results to the cell's place."""
    if store.shared():
        links.protect(made)
    links.place(made, folders.Published(root, cell).results)


def write(documents: Mapping[str, dict], folder: Path) -> None:
    """Write <benchmark>.json and summary.json into `folder`, each whole; other files there stay."""
    for name, document in documents.items():
        write_json(folders.result(folder, Name(name, "benchmark")), document)
    write_json(folder / folders.SUMMARY, summary(documents))


def summary(documents: Mapping[str, dict]) -> dict[str, float]:
    """All metrics flat, `benchmark/metric`."""
    return {f"{name}/{m}": value for name, doc in documents.items() for m, value in doc["metrics"].items()}

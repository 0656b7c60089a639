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
from compclip.base.files import fingerprint, temporary_path, write_json
from compclip.base.safe_names import SafeName
from compclip.config.sections import BenchmarkSection as Section
from compclip.config.sections import Scoring
from compclip.evaluate import benchmark_fingerprints
from compclip.runs import run_folder as folders
from compclip.runs import run_store
from compclip.runs.run_folder import RunFolder, Trained

if TYPE_CHECKING:
    from compclip.config.grid import Cell
    from compclip.config.sections import Params
    from compclip.runs.run_store import StoredRun


@dataclass(frozen=True)
class EvaluationTask:
    """What checkpoints are scored on, and how; `code` is the fingerprint of what scores them."""

    sections: Mapping[str, Section]
    how: Scoring
    code: str
    root: Path = Path(".")

    @functools.cached_property
    def parts(self) -> list:
        """What an evaluation depends on besides the weights."""
        scored = {name: [s.benchmark or name, self._fingerprint(name)] for name, s in sorted(self.sections.items())}
        return [scored, self.how.recorded(), self.code]

    def _fingerprint(self, name: str) -> str:
        return benchmark_fingerprints.benchmark_fingerprint(SafeName(name, "benchmark"), self.sections[name], self.root)

    def identity(self, weights: str) -> str:
        """Equal for equal results: the weights' fingerprint, benchmarks, the way they are scored and code."""
        return hashlib.sha256(json.dumps([weights, *self.parts]).encode()).hexdigest()[:16]


def task_from_params(params: Params, root: Path = Path(".")) -> EvaluationTask:
    """The evaluation that params.yaml asks for."""
    from compclip.config import plan

    names = params.evaluate.benchmarks
    code = plan.hash_evaluation_code(params, names)
    return EvaluationTask({n: params.benchmarks[n] for n in names}, params.evaluate.scoring, code, root)


def task_from_plan(document: Mapping[str, Any], root: Path = Path(".")) -> EvaluationTask:
    """The evaluation that a plan file asks for."""
    sections = {name: Section(**section) for name, section in document["benchmarks"].items()}
    return EvaluationTask(sections, Scoring(**document["how"]), document["code"], root)


def weights_fingerprint(trained: Trained) -> str:
    """The fingerprint of a finished training's weights, as its own files have it."""
    recorded = trained.facts().get("weights_fingerprint")
    if recorded:
        return str(recorded)
    return fingerprint(trained.checkpoint)


def find_results(task: EvaluationTask, folder: RunFolder) -> Path | None:
    """The results that a finished run has, where they are those that the task would give.

    Raises UserError where not all of the run is its own.
    """
    folder.check()
    if not folder.finished:
        return None
    results = folder.scores(task.identity(weights_fingerprint(folder.final)))
    return results if results.is_dir() else None


def store_results(task: EvaluationTask, folder: RunFolder, documents: Mapping[str, dict]) -> Path:
    """Leave results with a finished run: the folder is complete or not there. Raises UserError as `find`."""
    folder.check()  # once more: scoring takes long
    results = folder.scores(task.identity(weights_fingerprint(folder.final)))
    temporary = temporary_path(results, "new")
    try:
        write_documents(documents, temporary)
        with contextlib.suppress(OSError):  # somebody else's, made at the same time
            os.replace(temporary, results)
    finally:
        links.remove(temporary)
    return results


def mark_scored(folder: RunFolder, results: Path) -> None:
    """Say that these are the results that the run's job left."""
    write_json(folder.scored, {"identity": results.name})


def is_scored(params: Params, run: StoredRun) -> bool:
    """Whether a run is finished and has the results that an evaluation would give now, which are then the job's."""
    results = find_results(task_from_params(params, run.root), run.folder)
    if results:
        mark_scored(run.folder, results)
    return results is not None


def publish_link(results: Path, cell: Cell, root: Path) -> None:
    """Link results to the cell's place."""
    if run_store.is_shared():
        links.protect(results)
    links.link_or_copy(results, folders.Published(root, cell).results)


def write_documents(documents: Mapping[str, dict], folder: Path) -> None:
    """Write <benchmark>.json and summary.json into `folder`, each whole; other files there stay."""
    for name, document in documents.items():
        write_json(folders.result_path(folder, SafeName(name, "benchmark")), document)
    write_json(folder / folders.SUMMARY, flat_metrics(documents))


def flat_metrics(documents: Mapping[str, dict]) -> dict[str, float]:
    """All metrics flat, `benchmark/metric`."""
    return {f"{name}/{m}": value for name, doc in documents.items() for m, value in doc["metrics"].items()}

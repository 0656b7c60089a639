"""The cells of the grid brought to their results: taken over where somebody scored them, else scored here together."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compclip.base.errors import UserError
from compclip.config.grid import PRETRAINED, Cell
from compclip.evaluate import result_store
from compclip.evaluate.result_store import EvaluationTask
from compclip.runs import run_store
from compclip.runs.run_folder import Inputs, Published, RunFolder


@dataclass
class PublishedResults:
    """What became of cells: the folder of each one's results, and why others have none."""

    results: dict[str, Path] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    scored: int = 0


def publish_results(cells: Sequence[Cell], task: EvaluationTask) -> PublishedResults:
    """Every cell's results published; what is there already costs no model and no import of torch."""
    outcome, todo = PublishedResults(), dict[str, list[Cell]]()
    for cell in cells:
        try:
            folder = finished_run(cell, task.root)
        except UserError as error:
            outcome.failed[cell.name] = str(error)
            continue
        if results := result_store.find_results(task, folder):
            _publish(results, [cell], task.root, outcome)
        else:
            todo.setdefault(folder.key, []).append(cell)
    for key, results in _score_missing(todo, task, outcome):
        outcome.scored += 1
        _publish(results, todo[key], task.root, outcome)
    return outcome


def finished_run(cell: Cell, root: Path) -> RunFolder:
    """The run of a published cell in the store. Raises UserError where the cell was not trained."""
    trained = Published(root, cell).trained
    if not trained.environment.is_file():
        raise UserError(f"{trained.path}: not there; run `dvc repro train@{cell.method}` first")
    if not trained.run_key:
        raise UserError(f"{trained.environment}: names no run_key; run `dvc repro -f train@{cell.method}`")
    folder = run_store.find_folder(trained.run_key, root)
    folder.check()
    if not folder.finished:
        run_store.adopt_published(trained, folder)
    return folder


def checkpoint(cell: Cell, root: Path) -> Path:
    """A cell's checkpoint: its own, or for the method `pretrained` that was not published the backbone itself.

    Raises UserError where it was not made yet.
    """
    path = Published(root, cell).trained.checkpoint
    if cell.method == PRETRAINED and not path.exists():
        return pretrained(cell, root)
    return _existing(path, f"train@{cell.method}")


def pretrained(cell: Cell, root: Path) -> Path:
    """The backbone of a cell. Raises UserError where it was not made yet."""
    return _existing(Inputs(root, cell).backbone, f"backbone@{cell.backbone}")


def _existing(path: Path, stage: str) -> Path:
    if not path.exists():
        raise UserError(f"{path}: not there; run `dvc repro {stage}` first")
    return path


def _publish(results: Path, cells: Iterable[Cell], root: Path, outcome: PublishedResults) -> None:
    for cell in cells:
        try:
            result_store.publish_link(results, cell, root)
        except UserError as error:
            outcome.failed[cell.name] = str(error)
        else:
            outcome.results[cell.name] = results


def _score_missing(
    todo: Mapping[str, Sequence[Cell]], task: EvaluationTask, outcome: PublishedResults
) -> Iterator[tuple[str, Path]]:
    """Score the runs of these keys together; one that fails leaves the others alone."""
    for key, results in _score_runs([run_store.find_folder(key, task.root) for key in todo], task):
        if isinstance(results, UserError):
            outcome.failed |= {cell.name: str(results) for cell in todo[key]}
        else:
            yield key, results


def score_run(folder: RunFolder, task: EvaluationTask) -> Path:
    """The results of a finished run, kept with it: those that are there, or scored now."""
    if results := result_store.find_results(task, folder):
        return results
    [(_, results_now)] = _score_runs([folder], task)
    if isinstance(results_now, UserError):
        raise results_now
    return results_now


def _score_runs(folders: Sequence[RunFolder], task: EvaluationTask) -> Iterator[tuple[str, Path | UserError]]:
    """Score finished runs and keep the results with each."""
    if not folders:
        return
    from compclip.evaluate import score as scoring

    loaded = scoring.load_benchmarks(task.sections, list(task.sections), task.how)
    by_ref = {str(folder.final.checkpoint): folder for folder in folders}
    checkpoints = [
        scoring.ScoredCheckpoint(
            ref, {"run_key": f.key, "fingerprint": result_store.weights_fingerprint(f.final)}, device=scoring.device()
        )
        for ref, f in by_ref.items()
    ]
    for checkpoint, documents in scoring.score_checkpoints(checkpoints, loaded):
        folder = by_ref[checkpoint.ref]
        if isinstance(documents, UserError):
            yield folder.key, documents
        else:
            print_warnings(documents)
            yield folder.key, _store_results(task, folder, documents)


def _store_results(task: EvaluationTask, folder: RunFolder, documents: Mapping[str, dict]) -> Path | UserError:
    """Where the results of a run are; why they cannot be left with it."""
    try:
        return result_store.store_results(task, folder, documents)
    except UserError as error:
        return error


def print_warnings(documents: Mapping[str, dict]) -> None:
    """A line on stderr for each benchmark some of whose records or images were left out."""
    from compclip.evaluate.score import warnings

    for line in warnings(documents):
        print(line, file=sys.stderr)

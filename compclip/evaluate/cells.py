"""The cells of the grid brought to their results: taken over where somebody scored them, else scored here together."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compclip.base.errors import UserError
from compclip.config.cell import PRETRAINED, Cell
from compclip.evaluate import kept
from compclip.evaluate.kept import Task
from compclip.runs import store
from compclip.runs.folder import Folder, Inputs, Published


@dataclass
class Brought:
    """What became of cells: the folder of each one's results, and why others have none."""

    results: dict[str, Path] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    scored: int = 0


def bring(wanted: Sequence[Cell], asked: Task) -> Brought:
    """Every cell's results published; what is there already costs no model and no import of torch."""
    done, todo = Brought(), dict[str, list[Cell]]()
    for cell in wanted:
        try:
            folder = finished(cell, asked.root)
        except UserError as error:
            done.failed[cell.name] = str(error)
            continue
        if made := kept.find(asked, folder):
            _publish(made, [cell], asked.root, done)
        else:
            todo.setdefault(folder.key, []).append(cell)
    for key, made in _scored(todo, asked, done):
        done.scored += 1
        _publish(made, todo[key], asked.root, done)
    return done


def finished(cell: Cell, root: Path) -> Folder:
    """The run of a published cell in the store. Raises UserError where the cell was not trained."""
    trained = Published(root, cell).trained
    if not trained.environment.is_file():
        raise UserError(f"{trained.path}: not there; run `dvc repro train@{cell.method}` first")
    if not trained.run_key:
        raise UserError(f"{trained.environment}: names no run_key; run `dvc repro -f train@{cell.method}`")
    folder = store.folder(trained.run_key, root)
    folder.check()
    if not folder.finished:
        store.adopt(trained, folder)
    return folder


def checkpoint(cell: Cell, root: Path) -> Path:
    """A cell's checkpoint: its own, or for the method `pretrained` that was not published the backbone itself.

    Raises UserError where it was not made yet.
    """
    own = Published(root, cell).trained.checkpoint
    if cell.method == PRETRAINED and not own.exists():
        return pretrained(cell, root)
    return _made(own, f"train@{cell.method}")


def pretrained(cell: Cell, root: Path) -> Path:
    """The backbone of a cell. Raises UserError where it was not made yet."""
    return _made(Inputs(root, cell).backbone, f"backbone@{cell.backbone}")


def _made(path: Path, stage: str) -> Path:
    if not path.exists():
        raise UserError(f"{path}: not there; run `dvc repro {stage}` first")
    return path


def _publish(made: Path, cells: Iterable[Cell], root: Path, done: Brought) -> None:
    for cell in cells:
        try:
            kept.publish(made, cell, root)
        except UserError as error:
            done.failed[cell.name] = str(error)
        else:
            done.results[cell.name] = made


def _scored(todo: Mapping[str, Sequence[Cell]], asked: Task, done: Brought) -> Iterator[tuple[str, Path]]:
    """Score the runs of these keys together; one that fails leaves the others alone."""
    for key, made in _kept([store.folder(key, asked.root) for key in todo], asked):
        if isinstance(made, UserError):
            done.failed |= {cell.name: str(made) for cell in todo[key]}
        else:
            yield key, made


def score(folder: Folder, asked: Task) -> Path:
    """The results of a finished run, kept with it: those that are there, or scored now."""
    if made := kept.find(asked, folder):
        return made
    [(_, now)] = _kept([folder], asked)
    if isinstance(now, UserError):
        raise now
    return now


def _kept(folders: Sequence[Folder], asked: Task) -> Iterator[tuple[str, Path | UserError]]:
    """Score finished runs and keep the results with each."""
    if not folders:
        return
    from compclip.evaluate import score as scoring

    loaded = scoring.load(asked.sections, list(asked.sections), asked.how)
    by_ref = {str(folder.final.checkpoint): folder for folder in folders}
    given = [
        scoring.Checkpoint(ref, {"run_key": f.key, "fingerprint": kept.weights_of(f.final)}, device=scoring.device())
        for ref, f in by_ref.items()
    ]
    for checkpoint, made in scoring.documents_of_all(given, loaded):
        folder = by_ref[checkpoint.ref]
        if isinstance(made, UserError):
            yield folder.key, made
        else:
            warn(made)
            yield folder.key, _keep(asked, folder, made)


def _keep(asked: Task, folder: Folder, documents: Mapping[str, dict]) -> Path | UserError:
    """Where the results of a run are; why they cannot be left with it."""
    try:
        return kept.keep(asked, folder, documents)
    except UserError as error:
        return error


def warn(documents: Mapping[str, dict]) -> None:
    """A line on stderr for each benchmark some of whose records or images were left out."""
    from compclip.evaluate.score import warnings

    for line in warnings(documents):
        print(line, file=sys.stderr)

"""The run that is published, by its cell's name or its folder, and the runs that its numbers stand beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base import links, yaml_text
from compclip.base.errors import UserError, unknown
from compclip.base.files import check_output_folder, fingerprint, read_mapping, temporary_path, write_json
from compclip.config.cell import PRETRAINED, Cell
from compclip.interface.method import load_method
from compclip.report import run_details, tables
from compclip.runs import result_files, run_folder
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import Published, RunFolder, Trained
from compclip.runs.run_store import RESOURCES


@dataclass(frozen=True)
class SourceRun:
    """A finished run; `seeds` are this and the runs of other seeds alike, `pretrained` what they started from."""

    run: FinishedRun
    seeds: tuple[FinishedRun, ...]
    pretrained: tuple[FinishedRun, ...]
    root: Path  # of the project


def find_source_run(reference: str, root: Path) -> SourceRun:
    """Find a run by the name of its cell, or by a folder of runs/ or of the store.

    Raises UserError where there is none, or it is not finished or trained nothing.
    """
    trained, results, root = _locate(reference, root)
    for path in (trained.config, trained.environment):
        if not path.is_file():
            raise UserError(f"{reference}: not finished: no {path.name}; train it first (`compclip status`)")
    run = result_files.read_finished_run(trained, results)
    if not load_method(run.cell.method).TRAINS or not run.checkpoint:
        raise UserError(f"{reference}: has no weights of its own; give a cell of a method that was trained")
    siblings = [sibling for sibling in _read_siblings(run, root) if _settings(sibling) == _settings(run)]
    by_seed = {sibling.cell.seed: sibling for sibling in siblings} | {run.cell.seed: run}
    seeds = tuple(by_seed[seed] for seed in sorted(by_seed))
    source = SourceRun(run, seeds, _read_pretrained(run, root), root)
    tables.check_same_files([*source.seeds, *source.pretrained])
    return source


def _locate(reference: str, root: Path) -> tuple[Trained, Path, Path]:
    """Return the files of training, the folder of results, and the root of the project."""
    folder = Path(reference)
    if not folder.is_dir():
        cells = {
            f"{path.parent.name}-{path.name}": path for path in run_folder.published_folders(root / run_folder.RUNS)
        }
        if reference not in cells:
            raise unknown("run", reference, cells, str(root / run_folder.RUNS))
        folder = cells[reference]
    if (folder / "final").is_dir():  # of the store
        store_entry = RunFolder(folder)
        return store_entry.final, store_entry.results or store_entry.scores("none"), root
    folder = folder.absolute()
    if folder.parents[1].name == run_folder.RUNS:
        root = folder.parents[2]
    return Trained(folder), root / run_folder.RESULTS / folder.parent.name / folder.name, root


def _read_siblings(run: FinishedRun, root: Path) -> Iterator[FinishedRun]:
    """Yield the runs of the same method, backbone and data that have other seeds and are finished."""
    for path in run_folder.published_folders(root / run_folder.RUNS):
        trained = Trained(path)
        if path.parent.name == run.cell.method and trained.environment.is_file():
            results = root / run_folder.RESULTS / path.parent.name / path.name
            sibling = result_files.read_finished_run(trained, results)
            if sibling.cell != run.cell and sibling.cell[:3] == run.cell[:3]:
                yield sibling


def _settings(run: FinishedRun) -> dict[str, Any]:
    """Return what decides a run's numbers besides its seed, as its config.yaml says."""
    values = yaml_text.flatten({name: section for name, section in run.config.items() if name != "cell"})
    return {key: value for key, value in values.items() if key.removeprefix("train.") not in RESOURCES}


def _read_pretrained(run: FinishedRun, root: Path) -> tuple[FinishedRun, ...]:
    """Return the pretrained model's results, of this seed or else of the first that has any."""
    _, backbone, data, seed = run.cell
    folders = sorted((root / run_folder.RESULTS / PRETRAINED).glob(f"{backbone}-{data}-*"))
    names = [path.name.rpartition("-")[2] for path in folders]
    for number in [seed, *(int(name) for name in names if name.isdecimal())]:
        published = Published(root, Cell(PRETRAINED, backbone, data, number))
        base, _ = run_details.read_cell(published, list(run.results))
        if base:
            return (base,)
    return ()


# --- the folder of a publication ------------------------------------------------------------------------------------
# The folder of a publication: put in its place whole, never over what somebody else wrote there.


MARKER = "compclip_publication.json"
CARD = "README.md"


def check_target(folder: Path) -> None:
    """Raise UserError for a folder that holds more than an earlier publication, or a card that somebody edited."""
    check_output_folder(str(folder))
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not (folder / MARKER).is_file():
        raise UserError(f"{folder}: is not empty, and no earlier publication; give another folder")
    record = read_mapping(folder / MARKER)
    recorded_files = {MARKER, *map(str, record.get("files") or ())}
    unknown_files = sorted(set(list_files(folder)) - recorded_files)
    if unknown_files:
        raise UserError(
            f"{folder}: holds {unknown_files[0]}, which no publication wrote; move it away, or give another folder"
        )
    card = folder / CARD
    if card.is_file() and fingerprint(card) != record.get("card"):
        raise UserError(f"{card}: was edited; move it away, or give another folder")


def write_publication(folder: Path, record: dict[str, Any], write: Callable[[Path], None]) -> None:
    """Have `write` fill a folder beside, mark it, and put it in the place of `folder`.

    `record` is what the marker says besides the names of the files. Raises UserError as `check_target`.
    """
    check_target(folder)
    staging = temporary_path(folder.absolute(), "new")
    try:
        write(staging)
        files = {"files": list_files(staging), "card": fingerprint(staging / CARD)}
        write_json(staging / MARKER, record | files)
        links.link_or_copy(staging, folder.absolute())
    finally:
        links.remove(staging)


def list_files(folder: Path) -> list[str]:
    """List the files below a folder by their paths in it, sorted."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())

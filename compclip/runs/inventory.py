"""Who names a run of the store, and taking one out.

A run is named by the cells of grids, the trials of studies and MLflow. What cannot be judged is taken for used.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base import links, messages
from compclip.base.errors import UserError
from compclip.base.files import CHECKSUMS, hash_file, read_mapping, read_recorded
from compclip.base.messages import format_count
from compclip.base.shared_folders import check_plain, explain
from compclip.config import read
from compclip.config.grid import parse_cell
from compclip.data import column_hashes, shard_files
from compclip.interface.method import load_method
from compclip.model import run_weights
from compclip.runs import jobs, result_files, run_folder, run_store, run_table
from compclip.runs.run_folder import RUNS, RunFolder, Trained, published_folders, result_paths

REMOVED = ".removed-"  # a run on its way out
GRIDS = Path("experiments/grids")
SYNCED = Path("mlflow/synced.json")  # what MLflow holds: cells by name


@dataclass(frozen=True)
class RunUsers:
    """By run key, who names the run.

    `open_cells`: those whose data or backbone are not here, by what is known of their keys. `missing`: a line for each
    grid with open cells.
    """

    names_by_key: Mapping[str, Sequence[str]]
    open_cells: Mapping[str, str]
    missing: Sequence[str]

    def list_users(self, folder: RunFolder) -> list[str]:
        """List who names a run, or may name it."""
        users = list(dict.fromkeys(self.names_by_key.get(folder.key, ())))
        path = run_table.find_config(folder)
        if not self.open_cells:
            return users
        if path is None:
            return [*users, "perhaps a cell whose data is not here"]
        try:
            run = read.read_values(path)
            cell = parse_cell(run.get("cell"), f"{folder.path}: cell")
            open_cell = self.open_cells.get(run_store.hash_parameters(run, load_method(cell.method).TRAINS))
        except (UserError, KeyError) as error:
            open_cell = f"a cell: {error}"
        return [*users, f"perhaps {open_cell}"] if open_cell else users


def find_users(params_path: str, grids: Iterable[Path], root: Path) -> RunUsers:
    """Find who names which run: the cells of params.yaml and of other grids, studies, MLflow.

    Raises UserError where one of them cannot be read.
    """
    names_by_key: dict[str, list[str]] = defaultdict(list)
    open_cells: dict[str, str] = {}
    missing = []
    for path, prefix in ((Path(params_path), ""), *((path, f"{path.stem}: ") for path in grids)):
        cells = run_table.list_cells(path, root)
        for cell in cells:
            if cell.key:
                names_by_key[cell.key].append(f"{prefix}{cell.cell.name}")
        unkeyed = [cell for cell in cells if not cell.key]
        if unkeyed:
            open_cells |= {cell.parameters: f"{prefix}{cell.cell.name}" for cell in unkeyed}
            count = format_count(len(unkeyed), "cell")
            missing.append(f"{path}: {count} not judged ({unkeyed[0].error}); what may be theirs stays")
    for run_key, name in _list_trials(root):
        names_by_key[run_key].append(name)
    synced_names = read_mapping(root / SYNCED) if (root / SYNCED).is_file() else {}
    for path in run_folder.published_folders(root / run_folder.RUNS):
        published = Trained(path)
        if published.published_name in synced_names:
            names_by_key[published.run_key].append(f"MLflow: {published.published_name}")
    return RunUsers(names_by_key, open_cells, missing)


def _list_trials(root: Path) -> Iterator[tuple[str, str]]:
    """Yield run key and name of every trial of every study."""
    for path in sorted((root / run_table.STUDIES).glob("*/trials.json")):
        study = read_mapping(path)
        name = path.parent.name
        if study.get("reference"):
            yield study["reference"]["run_key"], f"{name}: pretrained"
        for trial in study["trials"]:
            if trial["run_key"]:
                yield trial["run_key"], f"{name}#{trial['number']}"


def remove(folder: RunFolder) -> None:
    """Remove a run from the store.

    Raises UserError where somebody works on it, or where it cannot be removed whole: nothing is removed then.
    """
    with jobs.hold_idle(folder):
        _check_writable(folder.path)
        aside = folder.path.with_name(f"{REMOVED}{folder.key}.{os.getpid()}")
        os.rename(folder.path, aside)
        links.remove(aside)


def _check_writable(tree: Path) -> None:
    """Raise UserError for a folder whose entries, or whose own name, we may not remove."""
    for path in (tree.parent, *(Path(path) for path, _, _ in os.walk(tree))):
        if not os.access(path, os.W_OK | os.X_OK):
            error = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            raise UserError(f"{path}: cannot remove: {explain(error, path, 'make the folder writable')}")


def finish_removals(root: Path) -> None:
    """Finish removals that were killed; print what may not be removed."""
    for path in run_store.store_folder(root).glob(f"{REMOVED}*"):
        fault = _find_fault(check_plain, path) or _find_fault(_check_writable, path)
        if fault:
            messages.note(fault)
        else:
            links.remove(path)


# Read once all that a project and its store keep, and name what is damaged, with what gets it back.
#
# Weights are compared with the fingerprint that their training recorded, checkpoints with their checksum, items of
# results with their metrics, shards with their manifest, objects of DVC's cache with their names; databases check
# themselves.

CACHE = Path(".dvc/cache/files/md5")
SKIPPED = {".git", ".venv"}  # folders that hold nothing of ours
DATABASES = ("mlflow/mlflow.db", ".work/studies/*.db")
TRAIN_AGAIN = "`compclip runs check --drop` removes it and its links; `compclip repro` makes it again"
FROM_BACKUP = "restore it from a backup"


@dataclass(frozen=True)
class Damage:
    """A damaged file or checkpoint folder, what is wrong, and what gets it back.

    With it must go `run`, or `folder`: nothing else tells that they are not whole any more.
    """

    path: Path
    fault: str
    remedy: str = TRAIN_AGAIN
    run: RunFolder | None = None
    folder: Path | None = None


def find_damage(root: Path) -> Iterator[Damage]:
    """Yield what is damaged. Reads every byte once: weights, checkpoints, results, shards, cache, databases."""
    damaged_inodes = set()
    for entry in run_table.list_store(root):
        for damage in _check_run(entry.folder) if not (entry.refused or entry.live) else ():
            damaged_inodes |= {_inode(damage.path)} if damage.path.exists() else set()
            yield damage
    for damage in _check_records(root):
        if not damage.path.exists() or _inode(damage.path) not in damaged_inodes:  # published files link there
            yield damage
    for path in sorted((root / CACHE).glob("??/*")):
        if path.is_file() and _hash_object(path) != path.parent.name + path.name.removesuffix(".dir"):
            yield Damage(path, "an object of DVC's cache that is not what its name says")
    yield from _check_databases(root)


def _check_run(run: RunFolder) -> Iterator[Damage]:
    snapshots = [RunFolder(path) for path in sorted((run.path / "snapshots").glob("*"))]
    for folder in (run, *snapshots):
        if folder.finished and _find_fault(run_weights.check_recorded, folder.final.checkpoint):
            yield Damage(folder.final.checkpoint, "its weights are not those that were trained", run=run)
        if folder.finished:
            yield from _check_curve(run, folder.final)
        for results in sorted(folder.path.glob("scores/*")):
            readers = dict.fromkeys(result_paths(results), result_files.read_result)
            for path, read_file in {**readers, results / run_folder.SUMMARY: read_recorded}.items():
                if fault := _find_fault(read_file, path):
                    yield Damage(path, fault, folder=results)
    for path in run.checkpoints():
        fault = _find_fault(run_folder.check_file, path)
        if fault:
            yield Damage(path, f"an unfinished training's checkpoint: {fault}")


def _check_curve(run: RunFolder, final: Trained) -> Iterator[Damage]:
    """Yield the curve of a finished training where it is damaged; the training wrote it in two places."""
    fault = _find_fault(result_files.read_curve, final)
    if fault:
        has_copy = run.metrics.is_file() and not _find_fault(Trained.facts, final)
        has_copy = has_copy and hash_file(run.metrics) == final.facts().get(run_folder.METRICS_HASH)
        remedy = f"`cp {run.metrics} {final.metrics}` brings it back" if has_copy else TRAIN_AGAIN
        yield Damage(final.metrics, fault, remedy, run=None if has_copy else run)


def _find_fault(read: Callable[[Any], object], source: Any) -> str:
    """Return the error of the function that reads a file; empty if it succeeds."""
    try:
        read(source)
    except (UserError, OSError, ValueError, KeyError) as error:
        return str(error)
    return ""


def _check_records(root: Path) -> Iterator[Damage]:
    """Yield damaged shards, manifests and backbones, for which a run key stands, and published results."""
    records = dict.fromkeys(sorted(root.glob(f"data/*/{shard_files.MANIFEST}")), column_hashes.list_damaged)
    records |= dict.fromkeys(sorted(root.glob(f"models/*/{CHECKSUMS}")), run_weights.list_damaged)
    results = sorted(root.glob(f"{run_folder.RESULTS}/**/{CHECKSUMS}"))
    for record, list_damaged in {**records, **dict.fromkeys(results, run_weights.list_damaged)}.items():
        folder = record.parent if record in results else None
        try:
            for path in list_damaged(record.parent, hash_file):
                yield Damage(path, f"missing, or not the file that {record.name} lists", folder=folder)
        except UserError as error:
            yield Damage(record, str(error), folder=folder)


def _hash_object(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def _check_databases(root: Path) -> Iterator[Damage]:
    for path in sorted(file for pattern in DATABASES for file in root.glob(pattern)):
        try:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
                answer = str(database.execute("PRAGMA integrity_check(1)").fetchone()[0])
        except sqlite3.Error as error:
            answer = str(error)
        if answer != "ok":
            is_view = path.parts[-2] == "mlflow"
            remedy = "move it away; `compclip track --rebuild` makes it again" if is_view else FROM_BACKUP
            yield Damage(path, answer, remedy)


def drop_damaged(damages: list[Damage], root: Path) -> list[Path]:
    """Remove what can be made again with every link to it, so that `compclip repro` makes it; return what was removed.

    Of a damaged run the run and its published folders go; files of it that others share stay theirs. Raises UserError
    where somebody works on a run.
    """
    damages = [damage for damage in damages if damage.remedy == TRAIN_AGAIN]
    removed = _remove_links([damage.path for damage in damages if damage.path.is_file()], root)
    for damage in damages:
        run = damage.run
        if run and run.path.is_dir():
            published = [folder for folder in published_folders(root / RUNS) if Trained(folder).run_key == run.key]
            remove(run)
            for folder in published:
                links.remove(folder)
            removed += [run.path, *published]
        if damage.folder:
            links.remove(damage.folder)
    return removed


def _remove_links(files: list[Path], root: Path) -> list[Path]:
    """Remove some files by all names that they have in the project and in its store; return the names."""
    inodes = {_inode(path) for path in files}
    removed = []
    for folder_name, subfolders, names in itertools.chain(os.walk(root), os.walk(run_store.store_folder(root))):
        subfolders[:] = [name for name in subfolders if name not in SKIPPED]
        for name in names:
            path = Path(folder_name, name)
            if os.path.lexists(path) and _inode(path) in inodes:
                path.unlink()
                removed.append(path)
    return sorted(removed)


def _inode(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino

"""Read once all that a project and its store keep, and name what is damaged, with what gets it back.

Weights are compared with the fingerprint that their training recorded, checkpoints with their checksum, items of
results with their metrics, shards with their manifest, objects of DVC's cache with their names; databases check
themselves.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from compclip.base import links
from compclip.base.errors import UserError
from compclip.data import shard_files
from compclip.model import run_weights
from compclip.runs import inventory, result_files, run_store, run_table, state_checksum
from compclip.runs.run_folder import RUNS, RunFolder, Trained, published_folders, result_paths

CACHE = Path(".dvc/cache/files/md5")
SKIPPED = {".git", ".venv"}  # folders that hold nothing of ours
DATABASES = ("mlflow/mlflow.db", ".work/studies/*.db")
TRAIN_AGAIN = "`compclip runs check --drop` removes it and its links; `dvc repro` makes it again"
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

    @property
    def can_be_dropped(self) -> bool:
        """Whether it can be made again."""
        return self.remedy == TRAIN_AGAIN


def find_damage(root: Path) -> Iterator[Damage]:
    """Yield what is damaged. Reads every byte once: weights, checkpoints, results, shards, cache, databases."""
    for entry in run_table.list_store(root):
        if not (entry.refused or entry.live):
            yield from _check_run(entry.folder)
    yield from _check_shards(root)
    yield from _check_cache(root)
    yield from _check_databases(root)


def _check_run(run: RunFolder) -> Iterator[Damage]:
    snapshots = [RunFolder(path) for path in sorted((run.path / "snapshots").glob("*"))]
    for folder in (run, *snapshots):
        if folder.finished:
            yield from _check_weights(folder.final, run)
        for results in sorted(folder.path.glob("scores/*")):
            for path in result_paths(results):
                try:
                    result_files.read_result(path)
                except UserError as error:
                    yield Damage(path, str(error), folder=results)
    for path in run.checkpoints():
        try:
            state_checksum.check_file(path)
        except (OSError, ValueError, KeyError) as error:
            yield Damage(path, f"an unfinished training's checkpoint: {error}")


def _check_weights(trained: Trained, run: RunFolder) -> Iterator[Damage]:
    try:
        run_weights.check_recorded(trained.checkpoint)
    except UserError:
        yield Damage(trained.checkpoint, "its weights are not those that were trained", run=run)


def _check_shards(root: Path) -> Iterator[Damage]:
    for manifest in sorted(root.glob(f"data/*/{shard_files.MANIFEST}")):
        try:
            shards = shard_files.read_manifest(manifest, f"annotate@{manifest.parent.name}").shards
        except UserError as error:
            yield Damage(manifest, str(error))
            continue
        for shard in shards:
            path = manifest.parent / shard_files.SHARDS / f"{shard.name}.arrow"
            if not path.is_file() or _hash_file(path, "sha256") != shard.sha256:
                yield Damage(path, "missing, or not the shard that its manifest lists")


def _check_cache(root: Path) -> Iterator[Damage]:
    for path in sorted((root / CACHE).glob("??/*")):
        if path.is_file() and _hash_file(path, "md5") != path.parent.name + path.name.removesuffix(".dir"):
            yield Damage(path, "an object of DVC's cache that is not what its name says")


def _hash_file(path: Path, algorithm: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _check_databases(root: Path) -> Iterator[Damage]:
    for pattern in DATABASES:
        for path in sorted(root.glob(pattern)):
            fault = _find_database_fault(path)
            if fault:
                is_view = path.parts[-2] == "mlflow"
                yield Damage(
                    path, fault, "move it away; `compclip track --rebuild` makes it again" if is_view else FROM_BACKUP
                )


def _find_database_fault(path: Path) -> str:
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            answer = database.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        return str(error)
    return "" if answer == "ok" else str(answer)


def drop(damages: list[Damage], root: Path) -> list[Path]:
    """Remove what can be made again with every link to it, so that `dvc repro` makes it; return what was removed.

    Of a damaged run the run and its published folders go; files of it that others share stay theirs. Raises UserError
    where somebody works on a run.
    """
    damages = [damage for damage in damages if damage.can_be_dropped]
    removed = _remove_links([damage.path for damage in damages if damage.path.is_file()], root)
    for run in {damage.run for damage in damages if damage.run}:
        published = [folder for folder in published_folders(root / RUNS) if Trained(folder).run_key == run.key]
        inventory.remove(run)
        for folder in published:
            links.remove(folder)
        removed += [run.path, *published]
    for folder in {damage.folder for damage in damages if damage.folder}:
        links.remove(folder)
    return removed


def _remove_links(files: list[Path], root: Path) -> list[Path]:
    """Remove some files by all names that they have in the project and in its store; return the names."""
    inodes = {_inode(path) for path in files}
    removed = []
    for folder_name, subfolders, names in itertools.chain(os.walk(root), os.walk(run_store.store_folder(root))):
        subfolders[:] = [name for name in subfolders if name not in SKIPPED]
        paths = [Path(folder_name, name) for name in names]
        removed += [path for path in paths if os.path.lexists(path) and _inode(path) in inodes]
    for path in set(removed):
        path.unlink()
    return sorted(set(removed))


def _inode(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino

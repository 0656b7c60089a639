"""What the store holds: each run's size, GPU-hours, age and state; and taking one out."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base import links, yaml_text
from compclip.base.errors import UserError
from compclip.base.files import read_text
from compclip.base.shared_folders import check_plain, explain
from compclip.runs import device_time, jobs, lock, run_store
from compclip.runs.run_folder import RunFolder

KEY = re.compile(r"[0-9a-f]{16}")
REMOVED = ".removed-"  # a run on its way out
FINISHED, STOPPED, EMPTY, DAMAGED = "finished", "stopped", "empty", "damaged"
REFUSED = "refused"  # holds a link, a pipe, or too deep a tree: nothing of it is read
CELL = re.compile(r"cell:\n(?:[ \t]+.*\n)+")  # where a config.yaml names its cell


@dataclass(frozen=True)
class DiskFile:
    """A file on the disk: its bytes, how many names it has, and how many of these are the run's."""

    size: int
    names: int
    own_names: int


@dataclass(frozen=True)
class StoreEntry:
    """A run of the store as it is now; `blocks` by inode."""

    folder: RunFolder
    state: str
    device_seconds: float
    age_s: float
    blocks: dict[tuple[int, int], DiskFile]
    is_kept: bool = False
    fault: str = ""  # the file that cannot be read, of a damaged one; what is refused

    @property
    def size(self) -> int:
        """Bytes on the disk, each file once however many names it has."""
        return count_bytes([self])

    @property
    def live(self) -> bool:
        """Whether somebody works on it, or is about to."""
        return self.state in jobs.LIVE

    @property
    def refused(self) -> bool:
        """Whether it is no run that anybody should read, write or remove here."""
        return self.state == REFUSED


def list_entries(root: Path) -> list[StoreEntry]:
    """List every run of the store, sorted by key."""
    store = run_store.store_folder(root)
    names = sorted(filter(KEY.fullmatch, os.listdir(store))) if store.is_dir() else []
    return [inspect_run(RunFolder(store / name)) for name in names]


def inspect_run(folder: RunFolder) -> StoreEntry:
    """Read one run's size, age and state."""
    try:
        folder.check()
    except UserError as error:
        return StoreEntry(folder, REFUSED, 0.0, 0.0, {}, fault=str(error))
    marks = (folder.final.environment, folder.metrics, folder.lock, folder.run, folder.path)
    newest = next((p.stat().st_mtime for p in marks if p.exists()), time.time())
    age, blocks, fault = max(0.0, time.time() - newest), _list_blocks(folder.path), ""
    try:
        state = _find_state(folder)
    except UserError as error:
        state, fault = DAMAGED, str(error)
    return StoreEntry(
        folder, state, device_time.read_device_seconds(folder), age, blocks, folder.keep_mark.exists(), fault
    )


def _find_state(folder: RunFolder) -> str:
    if lock.describe_holder(folder):
        return jobs.RUNNING
    if job := jobs.find_live_job(folder):
        return job.state()
    if folder.finished:
        return FINISHED
    return STOPPED if folder.metrics.is_file() or folder.checkpoints() else EMPTY


def _list_blocks(path: Path) -> dict[tuple[int, int], DiskFile]:
    blocks: dict[tuple[int, int], DiskFile] = {}
    for entry in _walk_files(str(path)):
        about = entry.stat(follow_symlinks=False)
        inode = about.st_dev, about.st_ino
        own_names = blocks[inode].own_names if inode in blocks else 0
        blocks[inode] = DiskFile(about.st_blocks * 512, about.st_nlink, own_names + 1)
    return blocks


def _walk_files(path: str) -> Iterator[os.DirEntry]:
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk_files(entry.path)
            else:
                yield entry


def count_bytes(entries: Iterable[StoreEntry]) -> int:
    """Count the bytes of several runs on the disk, each file once."""
    return sum({inode: block.size for entry in entries for inode, block in entry.blocks.items()}.values())


def count_freed_bytes(entries: Iterable[StoreEntry]) -> int:
    """Count the bytes that removing runs frees: a file that has a name elsewhere, in runs/ or DVC's cache, stays."""
    own_names: Counter[tuple[int, int]] = Counter()
    blocks: dict[tuple[int, int], DiskFile] = {}
    for entry in entries:
        blocks |= entry.blocks
        own_names.update({inode: block.own_names for inode, block in entry.blocks.items()})
    return sum(block.size for inode, block in blocks.items() if own_names[inode] >= block.names)


def cell_name(folder: RunFolder) -> str:
    """Return the cell that a run was made for; empty where no file says it, the fault where one is damaged."""
    path = next((p for p in (folder.final.config, folder.run) if p.is_file()), None)
    try:
        return "-".join(map(str, read_cell(path).values())) if path else ""
    except UserError as error:
        return str(error)


def read_cell(config: Path) -> dict[str, Any]:
    """Return the cell that a config.yaml names, without parsing the rest; empty where it names none.

    Raises UserError for a file that cannot be read.
    """
    match = CELL.search(read_text(config)) if config.is_file() else None
    if not match:
        return {}
    where = f"{config}: cell"
    cell = yaml_text.to_plain(yaml_text.parse_yaml(match[0], where, "must be a mapping"), where)["cell"]
    return cell if isinstance(cell, dict) else {}


def remove(folder: RunFolder) -> None:
    """Remove a run from the store.

    Raises UserError where somebody works on it, or where it cannot be removed whole: nothing is removed then.
    """
    with lock.hold_at_once(folder) as ours:
        if not ours or jobs.find_live_job(folder):
            raise UserError(
                f"{folder.key}: {describe_worker(folder)}; stop it first, no run is removed under its process"
            )
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


def describe_worker(folder: RunFolder) -> str:
    """Say who works on a run."""
    job = jobs.find_live_job(folder)
    if job:
        return f"{job.label()} is {job.state()}"
    return f"{lock.describe_holder(folder) or 'another process'} works on it"


def finish_removals(root: Path) -> None:
    """Finish removals that were killed; print what may not be removed."""
    for path in run_store.store_folder(root).glob(f"{REMOVED}*"):
        try:
            check_plain(path)
            _check_writable(path)
        except UserError as error:
            print(f"note: {error}", file=sys.stderr)
        else:
            links.remove(path)

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
from compclip.base.shared import check_plain, explain
from compclip.runs import jobs, lives, lock, store
from compclip.runs.folder import Folder

KEY = re.compile(r"[0-9a-f]{16}")
REMOVED = ".removed-"  # a run on its way out
FINISHED, STOPPED, EMPTY, DAMAGED = "finished", "stopped", "empty", "damaged"
REFUSED = "refused"  # holds a link, a pipe, or too deep a tree: nothing of it is read
CELL = re.compile(r"cell:\n(?:[ \t]+.*\n)+")  # where a config.yaml names its cell


@dataclass(frozen=True)
class Block:
    """A file on the disk: its bytes, how many names it has, and how many of these are the run's."""

    size: int
    names: int
    own: int


@dataclass(frozen=True)
class Held:
    """A run of the store as it is now; `blocks` by inode."""

    folder: Folder
    state: str
    device_seconds: float
    age_s: float
    blocks: dict[tuple[int, int], Block]
    kept: bool = False
    fault: str = ""  # the file that cannot be read, of a damaged one; what is refused

    @property
    def size(self) -> int:
        """Bytes on the disk, each file once however many names it has."""
        return size([self])

    @property
    def live(self) -> bool:
        """Whether somebody works on it, or is about to."""
        return self.state in jobs.LIVE

    @property
    def refused(self) -> bool:
        """Whether it is no run that anybody should read, write or remove here."""
        return self.state == REFUSED


def runs(root: Path) -> list[Held]:
    """Every run of the store, sorted by key."""
    place = store.place(root)
    names = sorted(filter(KEY.fullmatch, os.listdir(place))) if place.is_dir() else []
    return [look(Folder(place / name)) for name in names]


def look(folder: Folder) -> Held:
    """One run now."""
    try:
        folder.check()
    except UserError as error:
        return Held(folder, REFUSED, 0.0, 0.0, {}, fault=str(error))
    marks = (folder.final.environment, folder.metrics, folder.lock, folder.run, folder.path)
    newest = next((p.stat().st_mtime for p in marks if p.exists()), time.time())
    age, blocks, fault = max(0.0, time.time() - newest), _blocks(folder.path), ""
    try:
        state = _state(folder)
    except UserError as error:
        state, fault = DAMAGED, str(error)
    return Held(folder, state, lives.spent(folder), age, blocks, folder.kept.exists(), fault)


def _state(folder: Folder) -> str:
    if lock.said(folder):
        return jobs.RUNNING
    if job := jobs.attach(folder):
        return job.state()
    if folder.finished:
        return FINISHED
    return STOPPED if folder.metrics.is_file() or folder.checkpoints() else EMPTY


def _blocks(path: Path) -> dict[tuple[int, int], Block]:
    found: dict[tuple[int, int], Block] = {}
    for entry in _files(str(path)):
        about = entry.stat(follow_symlinks=False)
        inode = about.st_dev, about.st_ino
        own = found[inode].own if inode in found else 0
        found[inode] = Block(about.st_blocks * 512, about.st_nlink, own + 1)
    return found


def _files(path: str) -> Iterator[os.DirEntry]:
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry


def size(held: Iterable[Held]) -> int:
    """Bytes on the disk of several runs, each file once."""
    return sum({inode: block.size for one in held for inode, block in one.blocks.items()}.values())


def freed(held: Iterable[Held]) -> int:
    """Bytes that removing them gives back: a file that has a name elsewhere, in runs/ or DVC's cache, stays."""
    own: Counter[tuple[int, int]] = Counter()
    found: dict[tuple[int, int], Block] = {}
    for one in held:
        found |= one.blocks
        own.update({inode: block.own for inode, block in one.blocks.items()})
    return sum(block.size for inode, block in found.items() if own[inode] >= block.names)


def cell_name(folder: Folder) -> str:
    """The cell for which a run was made; nothing where nobody wrote it down, what is wrong where nobody can read it."""
    path = next((p for p in (folder.final.config, folder.run) if p.is_file()), None)
    try:
        return "-".join(map(str, cell_of(path).values())) if path else ""
    except UserError as error:
        return str(error)


def cell_of(config: Path) -> dict[str, Any]:
    """The cell that a config.yaml names, found without parsing the rest; empty where it names none.

    Raises UserError for a file that cannot be read.
    """
    found = CELL.search(read_text(config)) if config.is_file() else None
    if not found:
        return {}
    where = f"{config}: cell"
    named = yaml_text.plain(yaml_text.parsed(found[0], where, "must be a mapping"), where)["cell"]
    return named if isinstance(named, dict) else {}


def remove(folder: Folder) -> None:
    """Take a run out of the store, whole.

    Raises UserError where somebody works on it, or where it cannot be removed whole: nothing is removed then.
    """
    with lock.at_once(folder) as ours:
        if not ours or jobs.attach(folder):
            raise UserError(f"{folder.key}: {live_for(folder)}; stop it first, no run is removed under its process")
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


def live_for(folder: Folder) -> str:
    """Who works on a run."""
    job = jobs.attach(folder)
    return f"{job.label()} is {job.state()}" if job else f"{lock.said(folder) or 'another process'} works on it"


def sweep_up(root: Path) -> None:
    """Finish removals that were killed. What is not to be touched, or is others', is said and stays."""
    for path in store.place(root).glob(f"{REMOVED}*"):
        try:
            check_plain(path)
            _check_writable(path)
        except UserError as error:
            print(f"note: {error}", file=sys.stderr)
        else:
            links.remove(path)

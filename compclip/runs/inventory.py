"""What the store holds: each run's size, hours, age and state; who names it; and taking one out.

A run is named by the cells of grids, the trials of studies and MLflow. What cannot be judged is taken for used.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base import links, messages, yaml_text
from compclip.base.errors import UserError
from compclip.base.files import read_mapping, read_text
from compclip.base.number_text import format_count
from compclip.base.shared_folders import check_plain, explain
from compclip.config import read
from compclip.config.grid import parse_cell
from compclip.interface.method import load_method
from compclip.runs import device_hours, jobs, keys, progress, run_folder, run_store
from compclip.runs.run_folder import RunFolder, Trained

KEY = re.compile(r"[0-9a-f]{16}")
REMOVED = ".removed-"  # a run on its way out
FINISHED, STOPPED, EMPTY, DAMAGED = "finished", "stopped", "empty", "damaged"
REFUSED = "refused"  # holds a link, a pipe, or too deep a tree: nothing of it is read
CELL = re.compile(r"cell:\n(?:[ \t]+.*\n)+")  # where a config.yaml names its cell
GRIDS = Path("experiments/grids")
SYNCED = Path("mlflow/synced.json")  # what MLflow holds: cells by name
STUDIES, STORAGES = Path("studies"), Path(".work/studies")


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
    worker: str = ""  # who works on it
    origin: str = ""  # of a run that was carried from another key, which has its hours
    on_gpu: bool = False

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
    spent, fault, origin, worker, on_gpu = 0.0, "", "", None, False
    try:
        origin = describe_origin(folder.final)
        spent = 0.0 if origin else progress.read_device_seconds(folder)
        on_gpu = device_hours.ran_on_gpu(folder)
        worker = jobs.find_worker(folder)
        state = worker.state() if worker else _find_state(folder)
    except UserError as error:
        state, fault = DAMAGED, str(error)
    age = max(0.0, time.time() - newest)
    blocks, is_kept = _list_blocks(folder.path), folder.keep_mark.exists()
    name = worker.label() if worker else ""
    return StoreEntry(folder, state, spent, age, blocks, is_kept, fault, name, origin, on_gpu)


def describe_origin(trained: Trained) -> str:
    """Say which run a finished one was carried from; empty for one that was trained under its own key."""
    origin = trained.facts().get("carried")
    return f"taken over from {origin['from']}" if origin else ""


def _find_state(folder: RunFolder) -> str:
    if folder.finished:
        return FINISHED
    return STOPPED if folder.metrics.is_file() or folder.checkpoints() else EMPTY


def _list_blocks(path: Path) -> dict[tuple[int, int], DiskFile]:
    blocks: dict[tuple[int, int], DiskFile] = {}
    for folder, _, names in os.walk(path):
        for name in names:
            about = os.lstat(os.path.join(folder, name))
            inode = about.st_dev, about.st_ino
            own_names = blocks[inode].own_names if inode in blocks else 0
            blocks[inode] = DiskFile(about.st_blocks * 512, about.st_nlink, own_names + 1)
    return blocks


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
    cell = yaml_text.to_plain(yaml_text.parse_yaml(match[0], where, "must be a mapping"), where, resolves=False)["cell"]
    return cell if isinstance(cell, dict) else {}


@dataclass(frozen=True)
class RunUsers:
    """By run key, who names the run.

    `open`: cells whose data or backbone are not here, by what is known of their keys. `lost`: cells that MLflow holds
    and that are not published any more, by name. `missing`: a line for each grid with open cells.
    """

    names_by_key: Mapping[str, Sequence[str]]
    open: Mapping[str, str]
    lost: frozenset[str]
    missing: Sequence[str]

    def list_users(self, folder: RunFolder) -> list[str]:
        """List who names a run, or may name it."""
        users = list(dict.fromkeys(self.names_by_key.get(folder.key, ())))
        if not (self.open or self.lost):
            return users
        path = next((p for p in (folder.final.config, folder.run) if p.is_file()), None)
        if path is None:
            return [*users, "perhaps a cell whose data is not here"] if self.open else users
        try:
            run = read.read_values(path)
            cell = parse_cell(run.get("cell"), f"{folder.path}: cell")
            open_cell = self.open.get(run_store.hash_parameters(run, load_method(cell.method).TRAINS))
        except (UserError, KeyError) as error:
            return [*users, f"perhaps a cell: {error}"]
        if cell.name in self.lost:
            users.append(f"MLflow: {cell.name}")
        if open_cell:
            users.append(f"perhaps {open_cell}")
        return users


def find_users(params_path: str, grids: Iterable[Path], root: Path) -> RunUsers:
    """Find who names which run: the cells of params.yaml and of other grids, studies, MLflow.

    Raises UserError where one of them cannot be read.
    """
    names_by_key: dict[str, list[str]] = defaultdict(list)
    open_cells: dict[str, str] = {}
    missing, lost = [], set()
    for path, prefix in ((Path(params_path), ""), *((path, f"{path.stem}: ") for path in grids)):
        cells = keys.list_cells(path, root)
        for cell in cells:
            if cell.key:
                names_by_key[cell.key].append(f"{prefix}{cell.cell.name}")
        if unkeyed := [cell for cell in cells if not cell.key]:
            open_cells |= {cell.parameters: f"{prefix}{cell.cell.name}" for cell in unkeyed}
            count = format_count(len(unkeyed), "cell")
            missing.append(f"{path}: {count} not judged ({unkeyed[0].error}); what may be theirs stays")
    for run_key, name in _list_trials(root):
        names_by_key[run_key].append(name)
    published = {f"{p.parent.name}-{p.name}": p for p in run_folder.published_folders(root / run_folder.RUNS)}
    for name in read_mapping(root / SYNCED) if (root / SYNCED).is_file() else ():
        if name in published and (run_key := Trained(published[name]).run_key):
            names_by_key[run_key].append(f"MLflow: {name}")
        else:
            lost.add(name)
    return RunUsers(names_by_key, open_cells, frozenset(lost), missing)


def _list_trials(root: Path) -> Iterator[tuple[str, str]]:
    """Yield run key and name of every trial of every study.

    Running ones are in the study's own storage: trials.json learns of one when it is over.
    """
    for path in sorted((root / STUDIES).glob("*/trials.json")):
        study, name = read_mapping(path), path.parent.name
        if study.get("reference"):
            yield study["reference"]["run_key"], f"{name}: pretrained"
        yield from ((trial["run_key"], f"{name}#{trial['number']}") for trial in study["trials"] if trial["run_key"])
    query = (
        "SELECT number, json_extract(value_json, '$') FROM trial_user_attributes JOIN trials USING (trial_id) "
        "WHERE key = 'run_key' ORDER BY number"
    )
    for path in sorted((root / STORAGES).glob("*.db")):
        try:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as storage:
                rows = storage.execute(query).fetchall()
        except sqlite3.Error as error:
            fix = "remove the file or give it another name"
            raise UserError(f"{path}: not a study's storage ({error}); {fix}") from error
        yield from ((run_key, f"{path.stem}#{number}") for number, run_key in rows)


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
        try:
            check_plain(path)
            _check_writable(path)
        except UserError as error:
            messages.note(str(error))
        else:
            links.remove(path)

"""The table of runs: each run of the store, of the grid and of studies as one row, read from its files and its job.

`compclip status`, `compclip runs` and MLflow's live view show rows; nobody else looks into the folders for a state.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from compclip.base import yaml_text
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_mapping, read_text
from compclip.base.safe_names import SafeName
from compclip.config import grid, read
from compclip.config.cell import Cell
from compclip.interface.method import load_method
from compclip.runs import jobs, progress, run_store
from compclip.runs.progress import Progress
from compclip.runs.run_folder import Published, RunFolder, Trained, result_path

KEY = re.compile(r"[0-9a-f]{16}")
CELL = re.compile(r"cell:\n(?:[ \t]+.*\n)+")  # where a config.yaml names its cell
STUDIES = Path("studies")
# States of a run on which nobody works; the others are those of jobs.
SCORING = "scoring"
STALE = "stale"
STOPPED = "stopped"
TRAINED = "trained"
PUBLISHED = "published"
DAMAGED = "damaged"
REFUSED = "refused"  # holds a link, a pipe, or too deep a tree: nothing of it is read
WITH_WEIGHTS = (TRAINED, jobs.DONE, PUBLISHED)


@dataclass(frozen=True)
class RunRow:
    """What is known of a run. What is behind `folder` is known of the rows of `list_store` alone."""

    name: str
    state: str
    progress: Progress | None = None
    job: str = ""  # who works on it, or did last
    error: str = ""  # of the last job; the file that cannot be read; what is refused
    device_seconds: float = 0.0
    on_gpu: bool = False
    scored: tuple[int, int] | None = None  # benchmarks with results, and those of the grid
    missing_snapshots: int = 0  # of a run that is trained
    waits_by: str = ""  # SLURM's reason why its job has not started
    folder: RunFolder = field(default_factory=lambda: RunFolder(Path()))
    age_s: float = 0.0
    bytes_by_inode: Mapping[tuple[int, int], int] = field(default_factory=dict)  # on the disk
    is_kept: bool = False
    origin: str = ""  # of a run that was carried from another key, which has its hours

    @property
    def size(self) -> int:
        """Bytes on the disk, each file once however many names it has."""
        return count_bytes([self])

    @property
    def live(self) -> bool:
        """Whether somebody works on it, or is about to."""
        return self.state in (*jobs.LIVE, SCORING)

    @property
    def refused(self) -> bool:
        """Whether it is no run that anybody should read, write or remove here."""
        return self.state == REFUSED


# --- as the store sees it -----------------------------------------------------------------------------------------


def list_store(root: Path) -> list[RunRow]:
    """List every run of the store, sorted by key."""
    return [inspect_run(folder) for folder in list_folders(root)]


def list_folders(root: Path) -> list[RunFolder]:
    """List the folders of the store that are called by a run key, sorted."""
    store = run_store.store_folder(root)
    names = sorted(filter(KEY.fullmatch, os.listdir(store))) if store.is_dir() else []
    return [RunFolder(store / name) for name in names]


def inspect_run(folder: RunFolder) -> RunRow:
    """Read one run's size, age and state."""
    try:
        folder.check()
    except UserError as error:
        return RunRow(folder.key, REFUSED, error=str(error), folder=folder)
    marks = (folder.final.environment, folder.metrics, folder.lock, folder.run, folder.path)
    changed_at = next((path.stat().st_mtime for path in marks if path.exists()), time.time())
    row = make_row(ListedRun(folder.key, folder))
    age_s = max(0.0, time.time() - changed_at)
    is_kept = folder.keep_mark.exists()
    row = replace(row, folder=folder, age_s=age_s, bytes_by_inode=_list_bytes(folder.path), is_kept=is_kept)
    origin = "" if row.state == DAMAGED else describe_origin(folder.final)
    return replace(row, origin=origin, device_seconds=0.0) if origin else row


def describe_origin(trained: Trained) -> str:
    """Say which run a finished one was carried from; empty for one that was trained under its own key."""
    origin = trained.facts().get("carried")
    return f"taken over from {origin['from']}" if origin else ""


def _list_bytes(path: Path) -> dict[tuple[int, int], int]:
    bytes_by_inode = {}
    for folder, _, names in os.walk(path):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            bytes_by_inode[status.st_dev, status.st_ino] = status.st_blocks * 512
    return bytes_by_inode


def count_bytes(rows: Iterable[RunRow]) -> int:
    """Count the bytes of several runs on the disk, each file once."""
    bytes_by_inode: dict[tuple[int, int], int] = {}
    for row in rows:
        bytes_by_inode |= row.bytes_by_inode
    return sum(bytes_by_inode.values())


def find_config(folder: RunFolder) -> Path | None:
    """Return the file that says what a run was made for: the finished training's, else what its job read."""
    return next((path for path in (folder.final.config, folder.run) if path.is_file()), None)


def cell_name(folder: RunFolder) -> str:
    """Return the cell that a run was made for; empty where no file says it, the fault where one is damaged."""
    path = find_config(folder)
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


# --- as a grid and its studies see it -----------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyedCell:
    """A cell, its run key and its schedule; without data or backbone the key is empty and `error` says why.

    `parameters` is the hash of what is known of the key all the same, see `run_store.hash_parameters`.
    """

    cell: Cell
    key: str
    train: Mapping[str, Any]
    parameters: str
    error: str = ""


def list_cells(params_path: str | Path = read.DEFAULT, root: Path = Path(".")) -> list[KeyedCell]:
    """Return the cells of a params file with their keys. Raises UserError for a file with a mistake."""
    cells = []
    for run in grid.resolve_all(read.load_params(params_path)):
        parameters = run_store.hash_parameters(run.plain, load_method(run.method_name).TRAINS)
        try:
            key = run_store.locate_run(run, root).key
            error = ""
        except UserError as fault:
            key = ""
            error = one_line(str(fault))
        cells.append(KeyedCell(run.cell, key, asdict(run.train), parameters, error))
    return cells


@dataclass(frozen=True)
class ListedRun:
    """A run to show: its name, its folder where its key is known, and its schedule where that is at hand."""

    name: str
    folder: RunFolder | None
    schedule: Mapping[str, Any] | None = None
    published: Published | None = None
    error: str = ""
    benchmarks: tuple[str, ...] = ()  # which are to be scored; none where only its own job knows
    resumed_by: str = ""  # the command that goes on with it, whatever became of its job


def list_runs(params_path: str, root: Path = Path(".")) -> tuple[list[ListedRun], int]:
    """List the grid's runs, the studies' trials and other live runs; also count the older ones left out."""
    benchmarks = tuple(read.load_params(params_path).evaluate.benchmarks)
    runs = []
    for cell in list_cells(params_path, root):
        folder = run_store.find_folder(cell.key, root) if cell.key else None
        runs.append(ListedRun(cell.cell.name, folder, cell.train, Published(root, cell.cell), cell.error, benchmarks))
    runs_by_key = {run.folder.key if run.folder else run.name: run for run in (*runs, *_list_trials(root))}
    older = 0
    for folder in run_store.list_folders(root):
        if folder.key in runs_by_key:
            continue
        is_idle = False
        with contextlib.suppress(UserError):  # one that cannot be read is shown
            is_idle = not jobs.find_worker(folder)
        older += is_idle
        if not is_idle:
            runs_by_key[folder.key] = ListedRun(folder.key, folder)
    return list(runs_by_key.values()), older


def _list_trials(root: Path) -> Iterator[ListedRun]:
    """Yield the trials of sweeps that have a run; a study that cannot be read is a row as well."""
    for path in sorted((root / STUDIES).glob("*/trials.json")):
        study = path.parent.name
        command = "compclip sweep tune" if study.startswith("tune.") else f"compclip sweep --study {study}"
        try:
            for trial in read_mapping(path)["trials"]:
                if trial["run_key"]:
                    name = f"{study}#{trial['number']}"
                    folder = run_store.find_folder(trial["run_key"], root)
                    resumed_by = command if trial["state"] == "running" else ""
                    yield ListedRun(name, folder, error=str(trial["reason"]), resumed_by=resumed_by)
        except UserError as error:
            yield ListedRun(study, None, error=str(error))


def make_row(run: ListedRun) -> RunRow:
    """Read the state of one run."""
    if run.folder is None:
        return RunRow(run.name, STALE, error=run.error)
    try:
        row = _read_row(run, run.folder)
        missing = count_missing_snapshots(run, run.folder) if row.state in WITH_WEIGHTS else 0
        on_gpu = progress.ran_on_gpu(run.folder)
        return replace(row, on_gpu=on_gpu, scored=count_scored(run, run.folder), missing_snapshots=missing)
    except UserError as error:
        return RunRow(run.name, DAMAGED, error=one_line(str(error)))


def _read_row(run: ListedRun, folder: RunFolder) -> RunRow:
    worker = jobs.find_worker(folder)
    sent_run: Mapping[str, Any] = {}
    if not run.schedule and folder.run.is_file() and (worker or not folder.finished):
        sent_run = read.read_values(folder.run)  # of a run in neither grid nor study: name and schedule
    schedule = run.schedule or sent_run.get("train")
    steps = progress.read_progress(folder.progress, schedule) if folder.progress and schedule else None
    row = RunRow(run.name, STALE, steps, device_seconds=progress.read_device_seconds(folder))
    if worker:
        state = worker.state()
        if state == jobs.RUNNING and folder.finished:
            state = SCORING
        cell = sent_run.get("cell") if run.name == folder.key else None
        name = grid.parse_cell(cell, f"{folder.path}: cell").name if cell else run.name
        return replace(row, name=name, state=state, job=worker.label(), waits_by=worker.waits_by)
    is_published = _is_published(run, folder)
    if is_published or folder.scored.is_file():
        with_results, all_benchmarks = count_scored(run, folder) or (0, 0)
        scored_state = PUBLISHED if is_published else jobs.DONE
        return replace(row, state=TRAINED if with_results < all_benchmarks else scored_state)
    job = jobs.find_job(folder)
    if job and job.state() != jobs.DONE:  # a job that trains has done its work before the run is scored
        if run.resumed_by:
            return replace(row, state=STOPPED, error=f"`{run.resumed_by}` goes on with it")
        return replace(row, state=jobs.FAILED, job=job.label(), error=one_line(job.reason()))
    if folder.finished:
        return replace(row, state=TRAINED, error=run.error)
    return replace(row, state=STOPPED if steps or folder.checkpoints() else STALE, error=run.error)


def _is_published(run: ListedRun, folder: RunFolder) -> bool:
    return bool(run.published and run.published.trained.run_key == folder.key)


def count_scored(run: ListedRun, folder: RunFolder) -> tuple[int, int] | None:
    """Count the benchmarks that have results, and those that are to have them; None where these are not known.

    Results are those in results/ of a published run, or those that the last job left in the store.
    """
    if not run.benchmarks:
        return None
    scored = 0
    published = run.published.results if run.published and _is_published(run, folder) else None
    for results in filter(None, (folder.results, published)):
        paths = [result_path(results, SafeName(name, "benchmark")) for name in run.benchmarks]
        scored = max(scored, sum(map(Path.is_file, paths)))
    return scored, len(run.benchmarks)


def count_missing_snapshots(run: ListedRun, folder: RunFolder) -> int:
    """Count the snapshots that `train.snapshots` asks for and that the store lacks."""
    return sum(not folder.snapshot(share).finished for share in (run.schedule or {}).get("snapshots", ()))

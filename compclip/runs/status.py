"""One row a run, of the grid and of sweeps, and one a data stage: `python -m compclip status [--watch]`.

State, step, loss, samples/s, time left, job and last error, all read from files, processes and SLURM's queue; nothing
is changed. States: stale (nothing made yet), pending, running, scoring (trained, its benchmarks are under way), stopped
(goes on from its last checkpoint when it is started again), failed, damaged (a file of it cannot be read), done
(trained and scored), published (in runs/ as well). A window too short for all runs shows those first that live or
failed. Above them stand the data stages that are under way, see runs/data_stages.py.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError, entry, one_line
from compclip.base.files import read_mapping
from compclip.config import read
from compclip.config.grid import parse_cell
from compclip.runs import data_stages, device_time, grid_keys, jobs, lock, run_store
from compclip.runs.progress import Progress, read_progress
from compclip.runs.run_folder import Published, RunFolder
from compclip.runs.text_table import align_columns, format_duration

REFRESH_S = 2.0
LISTING_S = 30  # between two listings of a watch, which work out every run key
FRAME = 5  # lines of the watch that are no row
SCORING, STOPPED, STALE, PUBLISHED, DAMAGED = "scoring", "stopped", "stale", "published", "damaged"
URGENT = (jobs.RUNNING, SCORING, jobs.FAILED, DAMAGED, jobs.PENDING, STOPPED, STALE, jobs.DONE, PUBLISHED)
HEADER = ("run", "state", "step", "loss", "samples/s", "left", "GPU-h", "job", "last error")


@dataclass(frozen=True)
class StatusRow:
    """What is known of a run."""

    name: str
    state: str
    progress: Progress | None = None
    job: str = ""
    error: str = ""
    device_seconds: float = 0.0

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the columns, in the order of HEADER."""
        p, running = self.progress, self.state == jobs.RUNNING
        numbers = ("", "", "", "")
        if p:
            speed, time_left = (f"{p.samples_per_second:.0f}", format_duration(p.eta_s)) if running else ("", "")
            numbers = (f"{p.step}/{p.steps}", f"{p.loss:.4f}", speed, time_left)
        spent = f"{self.device_seconds / 3600:.2f}" if self.device_seconds else ""
        return (self.name, self.state, *numbers, spent, self.job, self.error)


@dataclass(frozen=True)
class ListedRun:
    """A run to show: its name, its folder where its key is known, and its schedule where that is at hand."""

    name: str
    folder: RunFolder | None
    schedule: Mapping[str, Any] | None = None
    published: Published | None = None
    error: str = ""


def list_runs(params_path: str, root: Path = Path(".")) -> tuple[list[ListedRun], int]:
    """List the grid's runs, the studies' trials and other live runs; also count the older ones left out."""
    runs_by_key = {
        e.folder.key if e.folder else e.name: e for e in (*_list_grid_runs(params_path, root), *_list_trials(root))
    }
    older = 0
    for folder in run_store.list_folders(root):
        if folder.key in runs_by_key:
            continue
        if _is_idle(folder):
            older += 1
        else:
            runs_by_key[folder.key] = ListedRun(folder.key, folder)
    return list(runs_by_key.values()), older


def _is_idle(folder: RunFolder) -> bool:
    """Return whether nobody works on a run; False where that cannot be read."""
    try:
        return not jobs.find_live_job(folder) and not lock.describe_holder(folder)
    except UserError:
        return False


def _list_grid_runs(params_path: str, root: Path) -> Iterable[ListedRun]:
    for cell in grid_keys.list_cells(params_path, root):
        folder = run_store.find_folder(cell.key, root) if cell.key else None
        yield ListedRun(cell.cell.name, folder, cell.train, Published(root, cell.cell), cell.error)


def _list_trials(root: Path) -> Iterable[ListedRun]:
    """Yield the trials of sweeps that have a run; a study that cannot be read is a row as well."""
    for path in sorted((root / "studies").glob("*/trials.json")):
        try:
            trials = [t for t in read_mapping(path)["trials"] if t["run_key"]]
            folders = [run_store.find_folder(str(trial["run_key"]), root) for trial in trials]
            names = [f"{path.parent.name}#{trial['number']}" for trial in trials]
            yield from [ListedRun(n, f, error=str(t["reason"])) for n, f, t in zip(names, folders, trials, strict=True)]
        except UserError as error:
            yield ListedRun(path.parent.name, None, error=str(error))
        except (KeyError, TypeError) as error:
            yield ListedRun(path.parent.name, None, error=f"{path}: not a study's trials ({error!r})")


def make_row(run: ListedRun) -> StatusRow:
    """Read the state of one run."""
    if run.folder is None:
        return StatusRow(run.name, STALE, error=run.error)
    try:
        return _read_row(run, run.folder)
    except UserError as error:
        return StatusRow(run.name, DAMAGED, error=one_line(str(error)))


def _read_row(run: ListedRun, folder: RunFolder) -> StatusRow:
    job, progress, spent = jobs.find_job(folder), _find_progress(run, folder), device_time.read_device_seconds(folder)
    state = job.state() if job else ""
    if job and state in jobs.LIVE:
        return StatusRow(
            _find_name(run, folder), _refine_state(state, folder), progress, job.label(), device_seconds=spent
        )
    if who := lock.describe_holder(folder):
        return StatusRow(
            _find_name(run, folder), _refine_state(jobs.RUNNING, folder), progress, who, device_seconds=spent
        )
    if finished_state := _finished_state(run, folder):
        return StatusRow(run.name, finished_state, progress, device_seconds=spent)
    if job:
        return StatusRow(run.name, jobs.FAILED, progress, job.label(), one_line(job.reason()), spent)
    return StatusRow(run.name, STOPPED if progress else STALE, progress, error=run.error, device_seconds=spent)


def _find_progress(run: ListedRun, folder: RunFolder) -> Progress | None:
    log = folder.progress
    if log is None:
        return None
    schedule = run.schedule or _read_sent_run(folder).get("train")
    return read_progress(log, schedule) if schedule else None


def _find_name(run: ListedRun, folder: RunFolder) -> str:
    """Return the run's name; of one in neither grid nor study, the name that it was sent with."""
    cell = _read_sent_run(folder).get("cell") if run.name == folder.key else None
    return parse_cell(cell, f"{folder.path}: cell").name if cell else run.name


def _read_sent_run(folder: RunFolder) -> Mapping[str, Any]:
    """Read the resolved run as it was sent; empty where there is no such file."""
    path = next((p for p in (folder.run, folder.final.config) if p.is_file()), None)
    return read.read_values(path, ()) if path else {}


def _refine_state(state: str, folder: RunFolder) -> str:
    """Return `scoring` for a live run whose training is finished, else `state`."""
    return SCORING if state == jobs.RUNNING and folder.finished else state


def _finished_state(run: ListedRun, folder: RunFolder) -> str:
    """Return published, done, or empty."""
    if run.published and run.published.trained.run_key == folder.key:
        return PUBLISHED
    return jobs.DONE if folder.scored.is_file() else ""


def format_table(rows: list[StatusRow], width: int) -> str:
    """Format the rows as a table."""
    return align_columns(HEADER, [r.cells() for r in rows], width)


def select_rows(rows: list[StatusRow], most: int) -> list[StatusRow]:
    """Select at most so many rows in their order: live and failed runs before waiting and finished ones."""
    ranked = sorted(range(len(rows)), key=lambda i: (URGENT.index(rows[i].state), i))
    return [rows[i] for i in sorted(ranked[: max(1, most)])]


def format_page(params_path: str, width: int, root: Path = Path(".")) -> str:
    """Return the page of a params file, with all its rows."""
    return format_runs(*list_runs(params_path, root), width, root)


def format_runs(runs: Sequence[ListedRun], older: int, width: int, root: Path = Path("."), most: int = 0) -> str:
    """Return the data stages under way; all rows, or at most so many, and how many there are of each state."""
    data = list(data_stages.list_rows(root))
    above = f"{data_stages.format_table(data, width)}\n\n" if data else ""
    rows = [make_row(run) for run in runs]
    counts = {state: sum(r.state == state for r in rows) for state in dict.fromkeys(r.state for r in rows)}
    summary = ", ".join(f"{n} {state}" for state, n in counts.items())
    left_out = f"; {older} older runs of the store not shown" if older else ""
    visible = select_rows(rows, most - above.count("\n")) if most else rows
    cut = f" ({len(rows) - len(visible)} not shown: the window is short)" if len(visible) < len(rows) else ""
    hours = f"; {sum(r.device_seconds for r in rows) / 3600:.2f} GPU-hours (of CPU runs, process-hours)"
    return f"{above}{format_table(visible, width)}\n\n{len(rows)} runs: {summary}{cut}{left_out}{hours}"


def _format_screen(params_path: str) -> str:
    """Return the page that fits the window; a mistake in a params.yaml that is being edited does not end the watch."""
    size, params = shutil.get_terminal_size(), Path(params_path)
    changed_ns = params.stat().st_mtime_ns if params.is_file() else 0
    try:
        runs, older = _list_recently(params_path, changed_ns, int(time.monotonic() // LISTING_S))
        return format_runs(runs, older, size.columns, most=size.lines - FRAME)
    except UserError as error:
        return f"error: {one_line(str(error))}"


@functools.lru_cache(1)
def _list_recently(params_path: str, _changed_ns: int, _period: int) -> tuple[list[ListedRun], int]:
    return list_runs(params_path)


def main(argv: list[str]) -> int:
    """Print the table once, or again and again."""
    parser = argparse.ArgumentParser(prog="python -m compclip status", description=__doc__.splitlines()[0])
    parser.add_argument("--watch", action="store_true", help=f"show it anew every {REFRESH_S:.0f} s, until Ctrl-C")
    parser.add_argument("--params", default=read.DEFAULT)
    args = parser.parse_args(argv)
    wide = 10_000 if not sys.stdout.isatty() else shutil.get_terminal_size().columns
    if not args.watch:
        print(format_page(args.params, wide))
        return 0
    try:
        while True:
            screen = _format_screen(args.params)
            print(f"\033[H\033[J{screen}\n{time.strftime('%H:%M:%S')}, Ctrl-C ends", flush=True)
            time.sleep(REFRESH_S)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(entry(main))

"""One row a run, of the grid and of sweeps, and one a data stage: `python -m compclip status [--watch]`.

State, step, loss, samples/s, time left, job and last error, all read from files, processes and SLURM's queue; nothing
is changed. States: stale (nothing made yet), pending, running, scoring (trained, its benchmarks are under way), stopped
(goes on from its last checkpoint when it is started again), failed, damaged (a file of it cannot be read), done
(trained and scored), published (in runs/ as well). A window too short for all runs shows those first that live or
failed. Above them stand the data stages that are under way, see runs/stages.py.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError, entry, one_line
from compclip.base.files import read_mapping
from compclip.config import read, structured
from compclip.runs import jobs, known, lives, lock, stages, store
from compclip.runs.folder import Folder, Published
from compclip.runs.progress import Progress, progress
from compclip.runs.table import aligned, duration

REFRESH_S = 2.0
FRAME = 5  # lines of the watch that are no row
SCORING, STOPPED, STALE, PUBLISHED, DAMAGED = "scoring", "stopped", "stale", "published", "damaged"
URGENT = (jobs.RUNNING, SCORING, jobs.FAILED, DAMAGED, jobs.PENDING, STOPPED, STALE, jobs.DONE, PUBLISHED)
HEADER = ("run", "state", "step", "loss", "samples/s", "left", "GPU-h", "job", "last error")


@dataclass(frozen=True)
class Row:
    """What is known of a run."""

    name: str
    state: str
    progress: Progress | None = None
    job: str = ""
    error: str = ""
    device_seconds: float = 0.0

    def cells(self) -> tuple[str, ...]:
        """As shown, in the order of HEADER."""
        p, running = self.progress, self.state == jobs.RUNNING
        numbers = ("", "", "", "")
        if p:
            speed, left = (f"{p.samples_per_second:.0f}", duration(p.eta_s)) if running else ("", "")
            numbers = (f"{p.step}/{p.steps}", f"{p.loss:.4f}", speed, left)
        spent = f"{self.device_seconds / 3600:.2f}" if self.device_seconds else ""
        return (self.name, self.state, *numbers, spent, self.job, self.error)


@dataclass(frozen=True)
class Listed:
    """A run to show: its name, its folder where its key is known, and its schedule where that is at hand."""

    name: str
    folder: Folder | None
    schedule: Mapping[str, Any] | None = None
    published: Published | None = None
    error: str = ""


def listed(params_path: str, root: Path = Path(".")) -> tuple[list[Listed], int]:
    """The grid's runs, the studies' trials, whatever else lives; and how many older run folders are left out."""
    found = {e.folder.key if e.folder else e.name: e for e in (*_grid(params_path, root), *_trials(root))}
    older = 0
    for folder in store.folders(root):
        if folder.key in found:
            continue
        if _idle(folder):
            older += 1
        else:
            found[folder.key] = Listed(folder.key, folder)
    return list(found.values()), older


def _idle(folder: Folder) -> bool:
    """Whether nobody works on a run; not of one that does not tell."""
    try:
        return not jobs.attach(folder) and not lock.said(folder)
    except UserError:
        return False


def _grid(params_path: str, root: Path) -> Iterable[Listed]:
    for one in known.cells(params_path, root):
        folder = store.folder(one.key, root) if one.key else None
        yield Listed(one.cell.name, folder, one.train, Published(root, one.cell), one.error)


def _trials(root: Path) -> Iterable[Listed]:
    """Trials of sweeps that were given a run; a study that cannot be read is a row as well."""
    for path in sorted((root / "studies").glob("*/trials.json")):
        try:
            yield from [_trial(path, t, root) for t in read_mapping(path)["trials"] if t["run_key"]]
        except UserError as error:
            yield Listed(path.parent.name, None, error=str(error))
        except (KeyError, TypeError) as error:
            yield Listed(path.parent.name, None, error=f"{path}: not a study's trials ({error!r})")


def _trial(path: Path, trial: Mapping[str, Any], root: Path) -> Listed:
    name, run = f"{path.parent.name}#{trial['number']}", store.folder(str(trial["run_key"]), root)
    return Listed(name, run, error=str(trial["reason"]))


def row(found: Listed) -> Row:
    """Look at one run now."""
    if found.folder is None:
        return Row(found.name, STALE, error=found.error)
    try:
        return _row(found, found.folder)
    except UserError as error:
        return Row(found.name, DAMAGED, error=one_line(str(error)))


def _row(found: Listed, folder: Folder) -> Row:
    job, seen, spent = jobs.find(folder), _progress(found, folder), lives.spent(folder)
    state = job.state() if job else ""
    if job and state in jobs.LIVE:
        return Row(_name(found, folder), _stage(state, folder), seen, job.label(), device_seconds=spent)
    if who := lock.said(folder):
        return Row(_name(found, folder), _stage(jobs.RUNNING, folder), seen, who, device_seconds=spent)
    if made := _made(found, folder):
        return Row(found.name, made, seen, device_seconds=spent)
    if job:
        return Row(found.name, jobs.FAILED, seen, job.label(), one_line(job.reason()), spent)
    return Row(found.name, STOPPED if seen else STALE, seen, error=found.error, device_seconds=spent)


def _progress(found: Listed, folder: Folder) -> Progress | None:
    log = folder.progress
    if log is None:
        return None
    schedule = found.schedule or _written(folder).get("train")
    return progress(log, schedule) if schedule else None


def _name(found: Listed, folder: Folder) -> str:
    """Of a run that neither the grid nor a study has, the name that it was sent with."""
    cell = _written(folder).get("cell") if found.name == folder.key else None
    return structured.cell(cell, f"{folder.path}: cell").name if cell else found.name


def _written(folder: Folder) -> Mapping[str, Any]:
    """A run as whoever sent it wrote it."""
    path = next((p for p in (folder.run, folder.final.config) if p.is_file()), None)
    return read.raw(path, ()) if path else {}


def _stage(state: str, folder: Folder) -> str:
    """A live run whose training is finished is being scored."""
    return SCORING if state == jobs.RUNNING and folder.finished else state


def _made(found: Listed, folder: Folder) -> str:
    """published, done, or nothing."""
    if found.published and found.published.trained.run_key == folder.key:
        return PUBLISHED
    return jobs.DONE if folder.scored.is_file() else ""


def table(rows: list[Row], width: int) -> str:
    """The rows as a table."""
    return aligned(HEADER, [r.cells() for r in rows], width)


def fitting(rows: list[Row], most: int) -> list[Row]:
    """At most so many rows, in their order: what lives or failed before what waits or is over."""
    ranked = sorted(range(len(rows)), key=lambda i: (URGENT.index(rows[i].state), i))
    return [rows[i] for i in sorted(ranked[: max(1, most)])]


def page(params_path: str, width: int, root: Path = Path("."), most: int = 0) -> str:
    """The data stages under way; all rows, or at most so many, and how many there are of each state."""
    found, older = listed(params_path, root)
    data = list(stages.rows(root))
    above = f"{stages.table(data, width)}\n\n" if data else ""
    rows = [row(one) for one in found]
    counts = {state: sum(r.state == state for r in rows) for state in dict.fromkeys(r.state for r in rows)}
    summary = ", ".join(f"{n} {state}" for state, n in counts.items())
    left_out = f"; {older} older runs of the store not shown" if older else ""
    shown = fitting(rows, most - above.count("\n")) if most else rows
    cut = f" ({len(rows) - len(shown)} not shown: the window is short)" if len(shown) < len(rows) else ""
    spent = f"; {sum(r.device_seconds for r in rows) / 3600:.2f} GPU-hours (of CPU runs, process-hours)"
    return f"{above}{table(shown, width)}\n\n{len(rows)} runs: {summary}{cut}{left_out}{spent}"


def _screen(params_path: str) -> str:
    """The page as the window takes it; a params.yaml that is being edited is told and does not end the watch."""
    size = shutil.get_terminal_size()
    try:
        return page(params_path, size.columns, most=size.lines - FRAME)
    except UserError as error:
        return f"error: {one_line(str(error))}"


def main(argv: list[str]) -> int:
    """Print the table once, or again and again."""
    parser = argparse.ArgumentParser(prog="python -m compclip status", description=__doc__.splitlines()[0])
    parser.add_argument("--watch", action="store_true", help=f"show it anew every {REFRESH_S:.0f} s, until Ctrl-C")
    parser.add_argument("--params", default=read.DEFAULT)
    args = parser.parse_args(argv)
    wide = 10_000 if not sys.stdout.isatty() else shutil.get_terminal_size().columns
    if not args.watch:
        print(page(args.params, wide))
        return 0
    try:
        while True:
            shown = _screen(args.params)
            print(f"\033[H\033[J{shown}\n{time.strftime('%H:%M:%S')}, Ctrl-C ends", flush=True)
            time.sleep(REFRESH_S)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(entry(main))

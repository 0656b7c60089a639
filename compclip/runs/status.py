"""One row a run, of the grid and of sweeps: `python -m compclip status [--watch]`.

State, step, loss, samples/s, time left, job and last error, all read from files, processes and SLURM's queue; nothing
is changed. States: stale (nothing made yet), pending, running, scoring (trained, its benchmarks are under way), stopped
(goes on from its last checkpoint when it is started again), failed, done (trained and scored), published (in runs/ as
well). A window too short for all runs shows those first that live or failed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from compclip.base.errors import UserError, entry, one_line
from compclip.base.files import read_json
from compclip.config import grid, read
from compclip.config.sections import Run
from compclip.runs import jobs, publish
from compclip.runs import progress as runs_progress

REFRESH_S = 2.0
FRAME = 5  # lines of the watch that are no row
SCORING, STOPPED, STALE, PUBLISHED = "scoring", "stopped", "stale", "published"
URGENT = (jobs.RUNNING, SCORING, jobs.FAILED, jobs.PENDING, STOPPED, STALE, jobs.DONE, PUBLISHED)
HEADER = ("run", "state", "step", "loss", "samples/s", "left", "job", "last error")


@dataclass(frozen=True)
class Row:
    """What is known of a run."""

    name: str
    state: str
    progress: runs_progress.Progress | None = None
    job: str = ""
    error: str = ""

    def cells(self) -> tuple[str, ...]:
        """As shown, in the order of HEADER."""
        p, running = self.progress, self.state == jobs.RUNNING
        numbers = (f"{p.step}/{p.steps}", f"{p.loss:.4f}", f"{p.samples_per_second:.0f}" if running else "",
                   duration(p.eta_s) if running else "") if p else ("", "", "", "")  # fmt: skip
        return (self.name, self.state, *numbers, self.job, self.error)


@dataclass(frozen=True)
class Entry:
    """A run to show: its name, its key, and the run where that could be read."""

    name: str
    key: str
    run: Run | None
    error: str = ""


def entries(params_path: str, root: Path = Path(".")) -> tuple[list[Entry], int]:
    """The grid's runs, the studies' trials, whatever else lives; and how many older run folders are left out."""
    found = {e.key or e.name: e for e in (*_grid(params_path, root), *_trials(root))}
    older = 0
    for work in sorted((root / ".work").glob("*/lock")):
        key = work.parent.name
        if key in found:
            continue
        run = _run(work.parent)
        if publish.holder(work.parent) is None and not jobs.attach(key, root):
            older += 1
        else:
            found[key] = Entry(run.cell.name if run else key, key, run)
    return list(found.values()), older


def _grid(params_path: str, root: Path) -> Iterable[Entry]:
    params = read.load(params_path)
    for cell in grid.cells(params):
        run = grid.resolve(params, cell)
        try:
            yield Entry(cell.name, publish.Publisher.of_run(run, root).key, run)
        except UserError as error:
            yield Entry(cell.name, "", run, one_line(str(error)))


def _trials(root: Path) -> Iterable[Entry]:
    """Trials of sweeps that were given a run."""
    for path in sorted((root / "studies").glob("*/trials.json")):
        for trial in read_json(path)["trials"]:
            if key := trial["run_key"]:
                name = f"{path.parent.name}#{trial['number']}"
                yield Entry(name, key, _run(root / ".work" / key), trial["reason"])


def _run(work: Path) -> Run | None:
    paths = (work / "run.yaml", work / "final" / "config.yaml")
    return next((read.from_yaml(p) for p in paths if p.is_file()), None)


def row(found: Entry, root: Path = Path(".")) -> Row:
    """Look at one run now."""
    if not found.key:
        return Row(found.name, STALE, error=found.error)
    work = root / ".work" / found.key
    log = next((p for p in (work / "metrics.jsonl", work / "final" / "metrics.jsonl") if p.is_file()), None)
    progress = runs_progress.progress(log, found.run.train) if log and found.run else None
    job = jobs.find(found.key, root)
    state = job.state() if job else ""
    if state in (jobs.PENDING, jobs.RUNNING):
        return Row(found.name, _stage(state, work), progress, job.label())
    pid = publish.holder(work)
    if pid is not None:
        return Row(found.name, _stage(jobs.RUNNING, work), progress, f"process {pid or '?'}")
    if made := _made(found, root):
        return Row(found.name, made, progress)
    if job:
        return Row(found.name, jobs.FAILED, progress, job.label(), one_line(job.reason()))
    return Row(found.name, STOPPED if progress else STALE, progress, error=found.error)


def _stage(state: str, work: Path) -> str:
    """A live run whose training is finished is being scored."""
    return SCORING if state == jobs.RUNNING and (work / "final" / "environment.json").is_file() else state


def _made(found: Entry, root: Path) -> str:
    """published, done, or nothing."""
    facts = root / "runs" / found.name / "environment.json"
    if facts.is_file() and read_json(facts).get("run_key") == found.key:
        return PUBLISHED
    return jobs.DONE if jobs.scored(found.key, root) else ""


def table(rows: list[Row], width: int) -> str:
    """Aligned columns, cut at `width`; columns without any value are left out."""
    lines = [HEADER, *(r.cells() for r in rows)]
    shown = [i for i in range(len(HEADER)) if i < 2 or any(line[i] for line in lines[1:])]
    sizes = {i: max(len(line[i]) for line in lines) for i in shown}
    text = ("  ".join(line[i].ljust(sizes[i]) for i in shown).rstrip() for line in lines)
    return "\n".join(line if len(line) <= width else f"{line[: width - 1]}…" for line in text)


def fitting(rows: list[Row], most: int) -> list[Row]:
    """At most so many rows, in their order: what lives or failed before what waits or is over."""
    ranked = sorted(range(len(rows)), key=lambda i: (URGENT.index(rows[i].state), i))
    return [rows[i] for i in sorted(ranked[: max(1, most)])]


def duration(seconds: float) -> str:
    """As 45s, 3m20s or 5h07m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def page(params_path: str, width: int, root: Path = Path("."), most: int = 0) -> str:
    """All rows, or at most so many, and how many there are of each state."""
    found, older = entries(params_path, root)
    rows = [row(e, root) for e in found]
    counts = {state: sum(r.state == state for r in rows) for state in dict.fromkeys(r.state for r in rows)}
    summary = ", ".join(f"{n} {state}" for state, n in counts.items())
    left_out = f"; {older} older run folders in .work not shown" if older else ""
    shown = fitting(rows, most) if most else rows
    cut = f" ({len(rows) - len(shown)} not shown: the window is short)" if len(shown) < len(rows) else ""
    return f"{table(shown, width)}\n\n{len(rows)} runs: {summary}{cut}{left_out}"


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

"""One row a run, of the grid and of sweeps, and one a data stage: `compclip status [--watch]`.

State, step, loss, samples/s, time left, benchmarks that are scored, hours, job and last error, all read from files,
processes and SLURM's queue; nothing is changed. The words of the states stand below the table (`MEANINGS`). A window
too short for all runs shows those first that live or failed. Above them stand the data stages that are under way:
shards made, captions a second, time left, jobs.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, one_line
from compclip.base.files import read_mapping
from compclip.base.number_text import format_count
from compclip.base.safe_names import SafeName
from compclip.config import read
from compclip.config.grid import parse_cell
from compclip.runs import device_hours, jobs, keys, lock, progress, run_store, shard_tasks, unsent_jobs, waiting_jobs
from compclip.runs.jobs import Job
from compclip.runs.progress import Progress
from compclip.runs.run_folder import Published, RunFolder, result_path
from compclip.runs.unsent_jobs import UnsentJob

REFRESH_S = 2.0
LISTING_S = 30  # between two listings of a watch, which work out every run key
FRAME = 5  # lines of the watch that are no row
SCORING, STOPPED, STALE, PUBLISHED, DAMAGED = "scoring", "stopped", "stale", "published", "damaged"
TRAINED = "trained"
MEANINGS = {  # the most urgent first
    jobs.RUNNING: "is being trained",
    SCORING: "trained, its benchmarks are under way",
    jobs.FAILED: "its last job ended with an error",
    DAMAGED: "a file of it cannot be read",
    jobs.PENDING: "its job waits in the queue",
    STOPPED: "goes on from its last checkpoint when it is started again",
    STALE: "nothing is made yet for the parameters, data and code of now",
    TRAINED: "trained, benchmarks of the grid are not scored",
    jobs.DONE: "trained and scored, not in runs/ yet",
    PUBLISHED: "trained and scored, in runs/",
}
URGENT = tuple(MEANINGS)
FINISHED = (TRAINED, jobs.DONE, PUBLISHED)
WITH_WEIGHTS, WITH_SCORES = (SCORING, TRAINED, jobs.DONE, PUBLISHED), (jobs.DONE, PUBLISHED)
HEADER = ("run", "state", "step", "loss", "samples/s", "left", "scored", "hours", "job", "last error")
STAGE_HEADER = ("stage", "state", "shards", "captions/s", "left", "job", "last error")
NEWEST = 16  # shards that tell how fast a stage goes


@dataclass(frozen=True)
class StatusRow:
    """What is known of a run."""

    name: str
    state: str
    progress: Progress | None = None
    job: str = ""
    error: str = ""
    device_seconds: float = 0.0
    on_gpu: bool = False
    scored: tuple[int, int] | None = None  # benchmarks with results, and those of the grid
    missing_snapshots: int = 0  # of a run that is trained
    waits_by: str = ""  # SLURM's reason why its job has not started

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the columns, in the order of HEADER."""
        p, running = self.progress, self.state == jobs.RUNNING
        numbers = ("", "", "", "")
        if p:
            speed, time_left = (f"{p.samples_per_second:.0f}", format_duration(p.eta_s)) if running else ("", "")
            numbers = (f"{p.step}/{p.steps}", f"{p.loss:.4f}", speed, time_left)
        spent = device_hours.format_hours(self.device_seconds, self.on_gpu) if self.device_seconds else ""
        scored = "/".join(map(str, self.scored or ()))
        return (self.name, self.state, *numbers, scored, spent, describe_job(self), self.error)


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
    runs, benchmarks = [], tuple(read.load_params(params_path).evaluate.benchmarks)
    for cell in keys.list_cells(params_path, root):
        folder = run_store.find_folder(cell.key, root) if cell.key else None
        runs.append(ListedRun(cell.cell.name, folder, cell.train, Published(root, cell.cell), cell.error, benchmarks))
    runs_by_key = {run.folder.key if run.folder else run.name: run for run in (*runs, *_list_trials(root))}
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
        return not jobs.find_worker(folder)
    except UserError:
        return False


def _list_trials(root: Path) -> Iterator[ListedRun]:
    """Yield the trials of sweeps that have a run; a study that cannot be read is a row as well."""
    for path in sorted((root / "studies").glob("*/trials.json")):
        name = path.parent.name
        try:
            command = "compclip tune" if name.startswith("tune.") else f"compclip sweep --study {name}"
            for trial in read_mapping(path)["trials"]:
                if trial["run_key"]:
                    folder = run_store.find_folder(trial["run_key"], root)
                    resumed_by = command if trial["state"] == "running" else ""
                    yield ListedRun(
                        f"{name}#{trial['number']}", folder, error=str(trial["reason"]), resumed_by=resumed_by
                    )
        except UserError as error:
            yield ListedRun(name, None, error=str(error))


def make_row(run: ListedRun) -> StatusRow:
    """Read the state of one run."""
    if run.folder is None:
        return StatusRow(run.name, STALE, error=run.error)
    try:
        row = _read_row(run, run.folder)
        on_gpu, scored = device_hours.ran_on_gpu(run.folder), count_scored(run, run.folder)
        missing = count_missing_snapshots(run, run.folder) if row.state in FINISHED else 0
        return replace(row, on_gpu=on_gpu, scored=scored, missing_snapshots=missing)
    except UserError as error:
        return StatusRow(run.name, DAMAGED, error=one_line(str(error)))


def _read_row(run: ListedRun, folder: RunFolder) -> StatusRow:
    worker = unsent_jobs.find_unsent(folder) or jobs.find_worker(folder)
    # Of a run in neither grid nor study, name and schedule are those that it was sent with.
    path = next((p for p in (folder.run, folder.final.config) if p.is_file()), None)
    sent_run = read.read_values(path) if path and not run.schedule else {}
    schedule = run.schedule or sent_run.get("train")
    steps = progress.read_progress(folder.progress, schedule) if folder.progress and schedule else None
    spent = progress.read_device_seconds(folder)
    if worker:
        state = worker.state()
        state = SCORING if state == jobs.RUNNING and folder.finished else state
        cell = sent_run.get("cell") if run.name == folder.key else None
        name = parse_cell(cell, f"{folder.path}: cell").name if cell else run.name
        return StatusRow(name, state, steps, worker.label(), device_seconds=spent, waits_by=worker.waits_by)
    published = bool(run.published and run.published.trained.run_key == folder.key)
    if published or folder.scored.is_file():
        count, of = count_scored(run, folder) or (0, 0)
        state = TRAINED if count < of else PUBLISHED if published else jobs.DONE
        return StatusRow(run.name, state, steps, device_seconds=spent)
    job = jobs.find_job(folder)
    has_failed = job is not None and job.state() != jobs.DONE  # one that trains has done its work before it is scored
    if has_failed and run.resumed_by:
        return StatusRow(run.name, STOPPED, steps, error=f"`{run.resumed_by}` goes on with it", device_seconds=spent)
    if job and has_failed:
        return StatusRow(run.name, jobs.FAILED, steps, job.label(), one_line(job.reason()), spent)
    state = TRAINED if folder.finished else STOPPED if steps else STALE
    return StatusRow(run.name, state, steps, error=run.error, device_seconds=spent)


def count_scored(run: ListedRun, folder: RunFolder) -> tuple[int, int] | None:
    """Count the benchmarks that have results, and those that are to have them; None where these are not known.

    Results are those in results/ of a published run, or those that the last job left in the store.
    """
    if not run.benchmarks:
        return None
    published = run.published if run.published and run.published.trained.run_key == folder.key else None
    folders = [path for path in (published and published.results, folder.results) if path]
    names = [SafeName(name, "benchmark") for name in run.benchmarks]
    return max((sum(result_path(f, n).is_file() for n in names) for f in folders), default=0), len(names)


def count_missing_snapshots(run: ListedRun, folder: RunFolder) -> int:
    """Count the snapshots that `train.snapshots` asks for and that the store lacks."""
    return sum(not folder.snapshot(share).finished for share in (run.schedule or {}).get("snapshots", ()))


@dataclass(frozen=True)
class StageRow:
    """What is known of a data stage; 0 where nothing is."""

    name: str
    state: str
    shards_made: int = 0
    shards_total: int = 0
    captions_per_second: float = 0.0
    left_s: float = 0.0
    job: str = ""
    error: str = ""
    waits_by: str = ""  # SLURM's reason why the first of its jobs has not started

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the columns, in the order of STAGE_HEADER."""
        speed = f"{self.captions_per_second:.0f}" if self.captions_per_second else ""
        time_left = format_duration(self.left_s) if self.left_s else ""
        shards = f"{self.shards_made}/{self.shards_total}" if self.shards_total else ""
        return (self.name, self.state, shards, speed, time_left, describe_job(self), self.error)


def describe_job(row: StatusRow | StageRow) -> str:
    """Return a row's job, with the reason why it waits, without what SLURM lists behind a comma."""
    return f"{row.job} ({row.waits_by.partition(',')[0]})" if row.waits_by not in ("", "None") else row.job


def list_stages(root: Path = Path()) -> Iterator[StageRow]:
    """Yield a row for each data stage that was begun and is not finished."""
    for folder in shard_tasks.list_requests(root):
        name = f"{folder.parent.name}@{folder.name}"
        try:
            row = _make_stage_row(name, folder)
        except UserError as error:
            row = StageRow(name, DAMAGED, error=one_line(str(error)))
        if row:
            yield row


def _make_stage_row(name: str, folder: Path) -> StageRow | None:
    """Read the state of a stage by one listing of its folder; None where all is made, or nothing was begun."""
    shard_keys = set(shard_tasks.read_request(folder).values())
    entries = {entry.name: entry for entry in os.scandir(folder)}
    finished = [entries[f"{key}.json"] for key in shard_keys if f"{key}.json" in entries]
    if len(finished) == len(shard_keys):
        return None
    locks = [f"{key}.lock" for key in shard_keys if f"{key}.json" not in entries]
    working_here = sum(lock.is_locked(folder / name) for name in locks if name in entries)
    tasks = shard_tasks.list_sent_tasks(folder)
    sent_jobs = [job for task in tasks if (job := unsent_jobs.find_unsent(task.folder) or jobs.find_job(task.folder))]
    jobs_by_state: dict[str, list[Job | UnsentJob]] = defaultdict(list)
    for job in sorted(sent_jobs, key=lambda job: job.label()):
        jobs_by_state[job.state()].append(job)
    running, pending, failed = (jobs_by_state[state] for state in (jobs.RUNNING, jobs.PENDING, jobs.FAILED))
    working = max(len(running), working_here)
    state = jobs.RUNNING if working else jobs.PENDING if pending else jobs.FAILED if failed else STOPPED
    if state == STOPPED and not finished:
        return None
    speed, seconds_left = _estimate_speed(finished, working, len(shard_keys) - len(finished))
    who = format_count(working_here, "process", "processes") if working_here else ""
    if named := running + pending or failed:
        who = named[0].label() + (f" and {len(named) - 1} more" if named[1:] else "")
    error = one_line(failed[0].reason()) if failed else ""
    waits_by = pending[0].waits_by if state == jobs.PENDING else ""
    return StageRow(name, state, len(finished), len(shard_keys), speed, seconds_left, who, error, waits_by)


def _estimate_speed(shard_entries: Sequence[os.DirEntry[str]], working: int, missing: int) -> tuple[float, float]:
    """Estimate captions a second of all workers, and the seconds for what is missing, from the newest shards."""
    newest = sorted(shard_entries, key=lambda entry: -entry.stat().st_mtime)[:NEWEST]
    shards = [read_mapping(entry.path) for entry in newest]
    captions, seconds = sum(s["shard"]["captions"] for s in shards), sum(s["seconds"] for s in shards)
    if not (working and captions and seconds > 0):
        return 0.0, 0.0
    speed = working * captions / seconds
    return speed, missing * captions / len(shards) / speed


def align_columns(header: Sequence[str], rows: Sequence[StatusRow | StageRow], width: int) -> str:
    """Align columns and cut lines at `width`; of the third and later ones those without any value are left out."""
    lines = [header, *(row.cells() for row in rows)]
    columns = [i for i in range(len(header)) if i < 2 or any(line[i] for line in lines[1:])]
    sizes = {i: max(len(line[i]) for line in lines) for i in columns}
    text = ("  ".join(line[i].ljust(sizes[i]) for i in columns).rstrip() for line in lines)
    return "\n".join(line if len(line) <= width else f"{line[: width - 1]}…" for line in text)


def format_duration(seconds: float) -> str:
    """Format a duration, as 45s, 3m20s or 5h07m."""
    total = round(seconds)
    if total < 60:
        return f"{total}s"
    if total < 3600:
        return f"{total // 60}m{total % 60:02d}s"
    return f"{total // 3600}h{total % 3600 // 60:02d}m"


def select_rows(rows: list[StatusRow], most: int) -> list[StatusRow]:
    """Select at most so many rows in their order: live and failed runs before waiting and finished ones."""
    ranked = sorted(range(len(rows)), key=lambda i: (URGENT.index(rows[i].state), i))
    return [rows[i] for i in sorted(ranked[: max(1, most)])]


def format_page(runs: Sequence[ListedRun], older: int, width: int, root: Path = Path("."), most: int = 0) -> str:
    """Return the data stages under way; all rows, or at most so many, and how many there are of each state."""
    stages = list(list_stages(root))
    above = f"{align_columns(STAGE_HEADER, stages, width)}\n\n" if stages else ""
    rows = [make_row(run) for run in runs]
    left_out = f"; {older} older runs of the store not shown" if older else ""
    waiting = [(stage.waits_by, stage.job) for stage in stages] + [(row.waits_by, row.job) for row in rows]
    notes = waiting_jobs.list_advice(waiting)
    notes += filter(None, [describe_snapshots(rows)])
    visible = select_rows(rows, most - above.count("\n") - len(notes)) if most else rows
    cut = f" ({len(rows) - len(visible)} not shown: the window is short)" if len(visible) < len(rows) else ""
    hours = device_hours.format_sum((row.device_seconds, row.on_gpu) for row in rows)
    table = align_columns(HEADER, visible, width)
    lines = [f"{summarize(rows)}{cut}{left_out}{hours and f'; {hours}'}", *notes]
    lines += [] if most else [format_legend(rows)]
    return f"{above}{table}\n\n" + "\n".join(filter(None, lines))


def summarize(rows: Sequence[StatusRow]) -> str:
    """Say how many runs there are of each state, whose sum is all of them; how many are trained, and scored."""
    counts = Counter(row.state for row in rows)
    states = ", ".join(f"{counts[state]} {state}" for state in MEANINGS if counts[state])
    trained, scored = (sum(counts[state] for state in states) for states in (WITH_WEIGHTS, WITH_SCORES))
    total = format_count(len(rows), "run")
    return f"{total}: {states or 'none'}; trained {trained} of {len(rows)}, scored {scored} of {len(rows)}"


def describe_snapshots(rows: Sequence[StatusRow]) -> str:
    """Say which finished runs lack snapshots, in a line; "" where none does."""
    lacking = [row for row in rows if row.missing_snapshots]
    if not lacking:
        return ""
    missing = format_count(sum(row.missing_snapshots for row in lacking), "snapshot")
    names = lacking[0].name + (f" and {len(lacking) - 1} more" if lacking[1:] else "")
    return f"{missing} missing of {names}: `dvc repro` trains each once more beside its files"


def format_legend(rows: Sequence[StatusRow]) -> str:
    """Explain the states that the rows have, a line each."""
    states = {row.state for row in rows}
    return "\n".join(f"  {state}: {meaning}" for state, meaning in MEANINGS.items() if state in states)


def _format_screen(params_path: str) -> str:
    """Return the page that fits the window; a mistake in a params.yaml that is being edited does not end the watch."""
    size, params = shutil.get_terminal_size(), Path(params_path)
    changed_ns = params.stat().st_mtime_ns if params.is_file() else 0
    try:
        runs, older = _list_recently(params_path, changed_ns, int(time.monotonic() // LISTING_S))
        return format_page(runs, older, size.columns, most=size.lines - FRAME)
    except UserError as error:
        return f"error: {one_line(str(error))}"


@functools.lru_cache(1)
def _list_recently(params_path: str, _changed_ns: int, _period: int) -> tuple[list[ListedRun], int]:
    return list_runs(params_path)


def main(argv: list[str]) -> int:
    """Print the table once, or again and again."""
    parser = CommandParser(prog="compclip status", description=__doc__.splitlines()[0])
    parser.add_argument("--watch", action="store_true", help=f"show it anew every {REFRESH_S:.0f} s, until Ctrl-C")
    parser.add_argument("--params", default=read.DEFAULT, help="the grid whose runs are shown")
    parser.add_argument("--json", action="store_true", help="print JSON, once")
    args = parser.parse_args(argv)
    if args.json:
        rows = [make_row(run) for run in list_runs(args.params)[0]]
        stages = [asdict(stage) for stage in list_stages()]
        print(json.dumps({"runs": [asdict(row) for row in rows], "stages": stages}, indent=1))
        return 0
    if not args.watch:
        width = 10_000 if not sys.stdout.isatty() else shutil.get_terminal_size().columns
        print(format_page(*list_runs(args.params), width))
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

"""One row a run, of the grid and of sweeps, and one a data stage: `compclip status [--watch]`.

State, step, loss, samples/s, time left, benchmarks that are scored, hours, job and last error, all read from files,
processes and SLURM's queue; nothing is changed. The words of the states stand below the table (`MEANINGS`). A window
too short for all runs shows those first that live or failed. Above them stand the data stages that are under way:
shards made, captions a second, time left, jobs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, hide_controls, one_line
from compclip.base.files import read_mapping
from compclip.base.messages import format_count
from compclip.runs import cluster, jobs, lock, progress, run_table, shard_tasks
from compclip.runs.jobs import Job
from compclip.runs.run_table import DAMAGED, PUBLISHED, SCORING, STALE, STOPPED, TRAINED, ListedRun, RunRow

REFRESH_S = 2.0
LISTING_S = 30  # between two listings of a watch, which work out every run key
FRAME = 5  # lines of the watch that are no row
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
WITH_WEIGHTS = (SCORING, *run_table.WITH_WEIGHTS)
WITH_SCORES = (jobs.DONE, PUBLISHED)
HEADER = ("run", "state", "step", "loss", "validation", "samples/s", "left", "scored", "hours", "job", "last error")
STAGE_HEADER = ("stage", "state", "shards", "captions/s", "left", "job", "last error")
NEWEST = 16  # shards that tell how fast a stage goes
JSON_FIELDS = (
    "name", "state", "progress", "job", "error", "device_seconds", "on_gpu", "scored", "missing_snapshots", "waits_by",
)  # fmt: skip


def list_cells(row: RunRow) -> tuple[str, ...]:
    """Return the texts of a run's columns, in the order of HEADER."""
    curve = ["", "", "", "", ""]
    if row.progress:
        curve[:3] = [f"{row.progress.step}/{row.progress.steps}", f"{row.progress.loss:.4f}", row.progress.validation]
    if row.progress and row.state == jobs.RUNNING:
        curve[3:] = [f"{row.progress.samples_per_second:.0f}", format_duration(row.progress.eta_s)]
    spent = progress.format_hours(row.device_seconds, row.on_gpu) if row.device_seconds else ""
    scored = "/".join(map(str, row.scored or ()))
    return (row.name, row.state, *curve, scored, spent, describe_job(row), row.error)


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


def list_stage_cells(row: StageRow) -> tuple[str, ...]:
    """Return the texts of a stage's columns, in the order of STAGE_HEADER."""
    speed = f"{row.captions_per_second:.0f}" if row.captions_per_second else ""
    time_left = format_duration(row.left_s) if row.left_s else ""
    shards = f"{row.shards_made}/{row.shards_total}" if row.shards_total else ""
    return (row.name, row.state, shards, speed, time_left, describe_job(row), row.error)


def describe_job(row: RunRow | StageRow) -> str:
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
    finished = []
    working_here = 0
    for key in shard_keys:
        if f"{key}.json" in entries:
            finished.append(entries[f"{key}.json"])
        elif f"{key}.lock" in entries:
            working_here += lock.is_locked(folder / f"{key}.lock")
    missing = len(shard_keys) - len(finished)
    if not missing:
        return None
    jobs_by_state: dict[str, list[Job]] = defaultdict(list)
    for task in shard_tasks.list_sent_tasks(folder):
        job = jobs.find_job(task.folder)
        if job:
            jobs_by_state[job.state()].append(job)
    working = max(len(jobs_by_state[jobs.RUNNING]), working_here)
    failed = jobs_by_state[jobs.FAILED]
    pending = jobs_by_state[jobs.PENDING]
    counts = {jobs.RUNNING: working, jobs.PENDING: len(pending), jobs.FAILED: len(failed), STOPPED: len(finished)}
    state = next((state for state, count in counts.items() if count), "")
    if not state:
        return None
    speed, seconds_left = _estimate_speed(finished, working, missing)
    who = format_count(working_here, "process", "processes") if working_here else ""
    labels = sorted(job.label() for job in jobs_by_state[jobs.RUNNING] + pending or failed)
    if labels:
        who = labels[0] + (f" and {len(labels) - 1} more" if labels[1:] else "")
    error = one_line(failed[0].reason()) if failed else ""
    waits_by = pending[0].waits_by if state == jobs.PENDING else ""
    return StageRow(name, state, len(finished), len(shard_keys), speed, seconds_left, who, error, waits_by)


def _estimate_speed(shard_entries: Sequence[os.DirEntry[str]], working: int, missing: int) -> tuple[float, float]:
    """Estimate captions a second of all workers, and the seconds for what is missing, from the newest shards."""
    captions = 0
    seconds = 0.0
    newest = sorted(shard_entries, key=lambda entry: -entry.stat().st_mtime)[:NEWEST]
    for shard_entry in newest:
        record = read_mapping(shard_entry.path)
        captions += record["shard"]["captions"]
        seconds += record["seconds"]
    if not (working and captions and seconds > 0):
        return 0.0, 0.0
    speed = working * captions / seconds
    return speed, missing * captions / len(newest) / speed


def align_columns(header: Sequence[str], rows: Sequence[Sequence[str]], width: int, least: int = 2) -> str:
    """Align columns and cut lines at `width`; behind the first `least` those without any value are left out."""
    columns = []
    for index, column in enumerate(zip(header, *rows, strict=True)):
        if index < least or any(column[1:]):
            longest = max(map(len, column))
            columns.append([hide_controls(text).replace("\n", " ").ljust(longest) for text in column])
    lines = []
    for row in zip(*columns, strict=True):
        line = "  ".join(row).rstrip()
        lines.append(line if len(line) <= width else f"{line[: width - 1]}…")
    return "\n".join(lines)


def format_duration(seconds: float) -> str:
    """Format a duration, as 45s, 3m20s or 5h07m."""
    total = round(seconds)
    if total < 60:
        return f"{total}s"
    if total < 3600:
        return f"{total // 60}m{total % 60:02d}s"
    return f"{total // 3600}h{total % 3600 // 60:02d}m"


def select_rows(rows: list[RunRow], most: int) -> list[RunRow]:
    """Select at most so many rows in their order: live and failed runs before waiting and finished ones."""
    ranked = sorted(range(len(rows)), key=lambda i: URGENT.index(rows[i].state))
    return [rows[i] for i in sorted(ranked[: max(1, most)])]


def format_page(runs: Sequence[ListedRun], older: int, width: int, root: Path = Path("."), most: int = 0) -> str:
    """Return the data stages under way; all rows, or at most so many, and how many there are of each state."""
    stages = list(list_stages(root))
    rows = [run_table.make_row(run) for run in runs]
    parts = []
    if stages:
        parts.append(align_columns(STAGE_HEADER, list(map(list_stage_cells, stages)), width))
    all_rows: list[StageRow | RunRow] = [*stages, *rows]
    notes = cluster.list_advice((row.waits_by, row.job) for row in all_rows) + describe_snapshots(rows)
    visible = select_rows(rows, most - len(stages) - 2 * bool(stages) - len(notes)) if most else rows
    parts.append(align_columns(HEADER, list(map(list_cells, visible)), width))
    sums = [summarize(rows)]
    if len(visible) < len(rows):
        sums[0] += f" ({len(rows) - len(visible)} not shown: the window is short)"
    if older:
        sums.append(f"{older} older runs of the store not shown")
    sums.append(progress.format_sum((row.device_seconds, row.on_gpu) for row in rows))
    legend = [] if most else format_legend(rows)
    parts.append("\n".join(["; ".join(filter(None, sums)), *notes, *legend]))
    return "\n\n".join(parts)


def summarize(rows: Sequence[RunRow]) -> str:
    """Say how many runs there are of each state, whose sum is all of them; how many are trained, and scored."""
    counts = Counter(row.state for row in rows)
    states = ", ".join(f"{counts[state]} {state}" for state in MEANINGS if counts[state])
    trained = sum(counts[state] for state in WITH_WEIGHTS)
    scored = sum(counts[state] for state in WITH_SCORES)
    total = format_count(len(rows), "run")
    return f"{total}: {states or 'none'}; trained {trained} of {len(rows)}, scored {scored} of {len(rows)}"


def describe_snapshots(rows: Sequence[RunRow]) -> list[str]:
    """Say which finished runs lack snapshots, in a line; nothing where none does."""
    missing = 0
    names = []
    for row in rows:
        if row.missing_snapshots:
            missing += row.missing_snapshots
            names.append(row.name)
    if not names:
        return []
    who = names[0] + (f" and {len(names) - 1} more" if names[1:] else "")
    return [f"{format_count(missing, 'snapshot')} missing of {who}: `compclip repro` makes them"]


def format_legend(rows: Sequence[RunRow]) -> list[str]:
    """Explain the states that the rows have, a line each."""
    states = {row.state for row in rows}
    return [f"  {state}: {meaning}" for state, meaning in MEANINGS.items() if state in states]


def watch(params_path: str) -> None:
    """Print the page that fits the window, again and again until Ctrl-C.

    Which runs there are is looked up where the params file has changed, and every LISTING_S seconds. A mistake in a
    file that is being edited does not end the watch.
    """
    params = Path(params_path)
    runs_and_older: tuple[list[ListedRun], int] = ([], 0)
    looked_up_at: tuple[int, int] | None = None
    while True:
        size = shutil.get_terminal_size()
        state = params.stat().st_mtime_ns if params.is_file() else 0, int(time.monotonic() // LISTING_S)
        try:
            if state != looked_up_at:
                runs_and_older = run_table.list_runs(params_path)
                looked_up_at = state
            page = format_page(*runs_and_older, size.columns, most=size.lines - FRAME)
        except UserError as error:
            page = f"error: {one_line(str(error))}"
        print(f"\033[H\033[J{page}\n{time.strftime('%H:%M:%S')}, Ctrl-C ends", flush=True)
        time.sleep(REFRESH_S)


def main(argv: list[str]) -> int:
    """Print the table once, or again and again."""
    parser = CommandParser(prog="compclip status", description=__doc__.splitlines()[0], example="--watch")
    parser.add_argument("--watch", action="store_true", help=f"show it anew every {REFRESH_S:.0f} s, until Ctrl-C")
    parser.add_grid()
    parser.add_json("print JSON, once")
    args = parser.parse_args(argv)
    if args.json:
        runs = []
        for run in run_table.list_runs(args.params)[0]:
            row = asdict(run_table.make_row(run))
            runs.append({name: row[name] for name in JSON_FIELDS})
        print(json.dumps({"runs": runs, "stages": [asdict(stage) for stage in list_stages()]}, indent=1))
        return 0
    if not args.watch:
        width = 10_000 if not sys.stdout.isatty() else shutil.get_terminal_size().columns
        print(format_page(*run_table.list_runs(args.params), width))
        return 0
    with contextlib.suppress(KeyboardInterrupt):
        watch(args.params)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

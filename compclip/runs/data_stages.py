"""One row for each data stage that is under way: shards made, captions a second, time left, jobs.

A stage whose shards are all made costs one listing of a folder, whatever their number.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compclip.base.errors import UserError, one_line
from compclip.base.files import read_mapping
from compclip.runs import jobs, requested_shards, shard_tasks
from compclip.runs.jobs import Job
from compclip.runs.requested_shards import RequestedShards
from compclip.runs.run_folder import RunFolder
from compclip.runs.text_table import align_columns, format_duration

NEWEST = 16  # shards that tell how fast it goes
STOPPED, DAMAGED = "stopped", "damaged"
HEADER = ("stage", "state", "shards", "captions/s", "left", "job", "last error")


@dataclass(frozen=True)
class StageRow:
    """What is known of a stage; 0 where nothing is."""

    name: str
    state: str
    shards_made: int = 0
    shards_total: int = 0
    captions_per_second: float = 0.0
    left_s: float = 0.0
    job: str = ""
    error: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the columns, in the order of HEADER."""
        speed = f"{self.captions_per_second:.0f}" if self.captions_per_second else ""
        time_left = format_duration(self.left_s) if self.left_s else ""
        shards = f"{self.shards_made}/{self.shards_total}" if self.shards_total else ""
        return (self.name, self.state, shards, speed, time_left, self.job, self.error)


def list_rows(root: Path = Path()) -> Iterator[StageRow]:
    """Yield a row for each stage that was begun and is not finished."""
    for folder in requested_shards.list_requests(root):
        name = f"{folder.parent.name}@{folder.name}"
        try:
            row = _make_row(name, requested_shards.read_request(folder))
        except UserError as error:
            row = StageRow(name, DAMAGED, error=one_line(str(error)))
        if row:
            yield row


def _make_row(name: str, request: RequestedShards) -> StageRow | None:
    keys = set(request.shards.values())
    entries = {entry.name: entry for entry in os.scandir(request.folder)}
    finished_keys = {key for key in keys if f"{key}.json" in entries}
    if finished_keys == keys:
        return None
    jobs_sent = _find_jobs(request.folder)
    states = Counter(state for _, state in jobs_sent)
    working_here = sum(
        _is_held(Path(entries[f"{key}.lock"].path)) for key in keys - finished_keys if f"{key}.lock" in entries
    )
    state = _choose_state(states, working_here)
    if not (finished_keys or state != STOPPED):
        return None
    working = max(states[jobs.RUNNING], working_here)
    speed, seconds_left = _estimate_speed(
        [entries[f"{key}.json"] for key in finished_keys], working, len(keys - finished_keys)
    )
    failed = next((job for job, state in jobs_sent if state == jobs.FAILED), None)
    error = one_line(failed.reason()) if failed else ""
    return StageRow(
        name, state, len(finished_keys), len(keys), speed, seconds_left, _describe_jobs(jobs_sent, working_here), error
    )


def _find_jobs(folder: Path) -> list[tuple[Job, str]]:
    """Return the jobs that were sent for a stage, with their states."""
    paths = (folder / shard_tasks.JOBS).glob(f"*/{shard_tasks.FILE}")
    jobs_sent = [jobs.find_job(RunFolder(path.parent)) for path in paths]
    return sorted(((job, job.state()) for job in jobs_sent if job), key=lambda pair: pair[0].label())


def _choose_state(states: Mapping[str, int], working_here: int) -> str:
    if states[jobs.RUNNING] or working_here:
        return jobs.RUNNING
    return next((state for state in (jobs.PENDING, jobs.FAILED) if states[state]), STOPPED)


def _is_held(lock: Path) -> bool:
    """Return whether a process holds this lock of a shard."""
    try:
        with open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # made in this moment
        pass
    return False


def _estimate_speed(shard_entries: Collection[os.DirEntry[str]], working: int, missing: int) -> tuple[float, float]:
    """Estimate captions a second of all workers, and the seconds for what is missing, from the newest shards."""
    newest = sorted(shard_entries, key=lambda entry: -entry.stat().st_mtime)[:NEWEST]
    speeds = [pair for entry in newest if (pair := _read_speed(Path(entry.path)))]
    captions, seconds = (sum(column) for column in zip(*speeds, strict=True)) if speeds else (0, 0.0)
    if not (working and captions and seconds > 0):
        return 0.0, 0.0
    speed = working * captions / seconds
    return speed, missing * captions / len(speeds) / speed


def _read_speed(path: Path) -> tuple[int, float] | None:
    """Return how many captions a shard has and its seconds; None where its file does not say."""
    try:
        raw = read_mapping(path)
        return int(raw["shard"]["captions"]), float(raw["seconds"])
    except (UserError, LookupError, TypeError, ValueError, OverflowError):
        return None


def _describe_jobs(jobs_sent: Sequence[tuple[Job, str]], working_here: int) -> str:
    """Name the live jobs, else those that failed, else the number of processes of this machine."""
    live = [job for job, state in jobs_sent if state in jobs.LIVE] or [
        job for job, state in jobs_sent if state == jobs.FAILED
    ]
    if not live:
        return f"{working_here} processes" if working_here else ""
    return live[0].label() + (f" and {len(live) - 1} more" if live[1:] else "")


def format_table(rows: Sequence[StageRow], width: int) -> str:
    """Format the rows as a table."""
    return align_columns(HEADER, [row.cells() for row in rows], width)

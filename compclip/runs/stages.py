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
from compclip.config import asked
from compclip.config.asked import Asked
from compclip.runs import jobs, tasks
from compclip.runs.folder import Folder
from compclip.runs.jobs import Job
from compclip.runs.table import aligned, duration

NEWEST = 16  # shards that tell how fast it goes
STOPPED, DAMAGED = "stopped", "damaged"
HEADER = ("stage", "state", "shards", "captions/s", "left", "job", "last error")


@dataclass(frozen=True)
class Row:
    """What is known of a stage; 0 where nothing is."""

    name: str
    state: str
    made: int = 0
    of: int = 0
    captions_per_second: float = 0.0
    left_s: float = 0.0
    job: str = ""
    error: str = ""

    def cells(self) -> tuple[str, ...]:
        """As shown, in the order of HEADER."""
        speed = f"{self.captions_per_second:.0f}" if self.captions_per_second else ""
        left, shards = (duration(self.left_s) if self.left_s else ""), (f"{self.made}/{self.of}" if self.of else "")
        return (self.name, self.state, shards, speed, left, self.job, self.error)


def rows(root: Path = Path()) -> Iterator[Row]:
    """The stages that are neither finished nor untouched."""
    for folder in asked.every(root):
        name = f"{folder.parent.name}@{folder.name}"
        try:
            row = _row(name, asked.read(folder))
        except UserError as error:
            row = Row(name, DAMAGED, error=one_line(str(error)))
        if row:
            yield row


def _row(name: str, wanted: Asked) -> Row | None:
    keys = set(wanted.shards.values())
    listed = {entry.name: entry for entry in os.scandir(wanted.folder)}
    made = {key for key in keys if f"{key}.json" in listed}
    if made == keys:
        return None
    sent = _sent(wanted.folder)
    states = Counter(state for _, state in sent)
    held = sum(_held(Path(listed[f"{key}.lock"].path)) for key in keys - made if f"{key}.lock" in listed)
    state = _state(states, held)
    if not (made or state != STOPPED):
        return None
    working = max(states[jobs.RUNNING], held)
    speed, left = _pace([listed[f"{key}.json"] for key in made], working, len(keys - made))
    failed = next((job for job, state in sent if state == jobs.FAILED), None)
    error = one_line(failed.reason()) if failed else ""
    return Row(name, state, len(made), len(keys), speed, left, _labels(sent, held), error)


def _sent(folder: Path) -> list[tuple[Job, str]]:
    """The jobs of a stage that were sent, with their states."""
    found = [jobs.find(Folder(path.parent)) for path in (folder / tasks.JOBS).glob(f"*/{tasks.FILE}")]
    return sorted(((job, job.state()) for job in found if job), key=lambda pair: pair[0].label())


def _state(states: Mapping[str, int], held: int) -> str:
    if states[jobs.RUNNING] or held:
        return jobs.RUNNING
    return next((state for state in (jobs.PENDING, jobs.FAILED) if states[state]), STOPPED)


def _held(lock: Path) -> bool:
    """Whether somebody makes the shard of this lock."""
    try:
        with open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # made in this moment
        pass
    return False


def _pace(made: Collection[os.DirEntry[str]], working: int, missing: int) -> tuple[float, float]:
    """Captions a second of all that work now, and the seconds for what is missing, by the shards made last."""
    newest = sorted(made, key=lambda entry: -entry.stat().st_mtime)[:NEWEST]
    told = [pair for entry in newest if (pair := _spent(Path(entry.path)))]
    captions, seconds = (sum(column) for column in zip(*told, strict=True)) if told else (0, 0.0)
    if not (working and captions and seconds > 0):
        return 0.0, 0.0
    speed = working * captions / seconds
    return speed, missing * captions / len(told) / speed


def _spent(path: Path) -> tuple[int, float] | None:
    """The captions of a shard, and the seconds that it took; None where its file does not tell."""
    try:
        raw = read_mapping(path)
        return int(raw["shard"]["captions"]), float(raw["seconds"])
    except (UserError, LookupError, TypeError, ValueError, OverflowError):
        return None


def _labels(sent: Sequence[tuple[Job, str]], held: int) -> str:
    """Of the live jobs, or of those that failed; of processes of this machine, how many."""
    live = [job for job, state in sent if state in jobs.LIVE] or [job for job, state in sent if state == jobs.FAILED]
    if not live:
        return f"{held} processes" if held else ""
    return live[0].label() + (f" and {len(live) - 1} more" if live[1:] else "")


def table(found: Sequence[Row], width: int) -> str:
    """The rows as a table."""
    return aligned(HEADER, [row.cells() for row in found], width)

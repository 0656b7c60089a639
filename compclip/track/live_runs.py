"""Runs of the grid that are not published yet, as files show them: their state, and what their curves have gained.

A poll reads the new lines of each run under way. Of every other run it looks at a few times of change and no more, so
that its cost grows with the runs under way.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from compclip.base import json_text, safe_names
from compclip.base.errors import UserError
from compclip.base.files import read_mapping
from compclip.base.shared_folders import read_user
from compclip.runs import jobs, run_store, run_table
from compclip.runs.run_store import StoredRun
from compclip.runs.run_table import ListedRun
from compclip.track.tracked_files import MOMENT_NS

PREFIX = "live/"  # of the keys of their entries
# MLflow's word for each state of `compclip status`; a run that nobody trains and that logged nothing was stopped, too.
STATUSES = {
    jobs.RUNNING: "RUNNING",
    run_table.SCORING: "RUNNING",
    jobs.PENDING: "SCHEDULED",
    jobs.FAILED: "FAILED",
    run_table.DAMAGED: "FAILED",
    run_table.STOPPED: "KILLED",
    run_table.STALE: "KILLED",
    run_table.TRAINED: "FINISHED",
    jobs.DONE: "FINISHED",
}
UNDER_WAY = ("RUNNING", "SCHEDULED")


class Position(NamedTuple):
    """How far a metrics.jsonl was read: the file's inode, its bytes, and the last step."""

    inode: int = 0
    offset: int = 0
    step: int = 0

    @staticmethod
    def parse(text: str) -> Position:
        """Return what `str` made of a position; the start for an empty text."""
        return Position(*map(int, text.split(":"))) if text else Position()

    def __str__(self) -> str:
        return ":".join(map(str, self))


def read_new_rows(log: Path | None, position: Position) -> tuple[list[dict[str, Any]], Position]:
    """Return the complete lines of a curve behind a position, and the position behind them.

    A trainer that goes on from a checkpoint writes the file anew: it is then read from its start, and steps that were
    read before are left out, since they have the same numbers.
    """
    if log is None:
        return [], position
    with open(log, "rb") as file:
        info = os.fstat(file.fileno())
        same_file = info.st_ino == position.inode and info.st_size >= position.offset
        offset = position.offset if same_file else 0
        file.seek(offset)
        data = file.read()
    complete = data[: data.rfind(b"\n") + 1]
    lines = complete.decode(errors="replace").splitlines()
    rows = [json_text.parse_json(line, str(log), "train the run again") for line in lines]
    new_rows = [row for row in rows if row["step"] > position.step]
    last_step = new_rows[-1]["step"] if new_rows else position.step
    return new_rows, Position(info.st_ino, offset + len(complete), last_step)


@dataclass(frozen=True)
class LiveRun:
    """A run that is not published yet; `state` as `compclip status` has it, `error` why it failed."""

    run: StoredRun
    state: str
    error: str = ""

    @property
    def name(self) -> str:
        """The cell's."""
        return self.run.name

    @property
    def key(self) -> str:
        """The key of its entry: the same however often the run goes on."""
        return f"{PREFIX}{self.name}/{self.run.key}"

    @property
    def status(self) -> str:
        """MLflow's word for the state."""
        return STATUSES[self.state]

    @property
    def is_under_way(self) -> bool:
        """Whether somebody works on it, or will."""
        return self.status in UNDER_WAY

    @property
    def has_begun(self) -> bool:
        """Whether a process ever worked on it; it is not shown before."""
        return self.run.folder.lives.is_dir()

    @property
    def signature(self) -> tuple[Any, ...]:
        """Another one whenever there is something new to log."""
        log = self.run.folder.progress
        info = log.stat() if log else None
        return self.key, self.state, self.error, info and (info.st_ino, info.st_size)

    @cached_property
    def lives(self) -> list[dict[str, Any]]:
        """What the processes that worked on it noted, in order; one that is writing its note is left out."""
        lives = []
        for path in self.run.folder.lives.glob("*.json"):
            with contextlib.suppress(UserError):
                lives.append(read_mapping(path))
        return sorted(lives, key=lambda life: life["started"])

    @property
    def facts(self) -> dict[str, str]:
        """Its key, whose it is, and the host of the last process: what environment.json says when it is finished."""
        user = read_user(os.stat(self.run.folder.lives).st_uid)
        host = self.lives[-1].get("host", "") if self.lives else ""
        return {"run_key": self.run.key, "user": user, "host": host}

    @property
    def start(self) -> float:
        """When a process first worked on it, in seconds since the epoch."""
        return self.lives[0]["started"] if self.lives else os.stat(self.run.folder.lives).st_mtime

    @property
    def end(self) -> float:
        """When its log was last written; when it began, without one."""
        log = self.run.folder.progress
        return log.stat().st_mtime if log else self.start

    def read_rows(self, position: Position) -> tuple[list[dict[str, Any]], Position]:
        """Read the new lines of its curve; none of a run whose files are damaged."""
        return read_new_rows(None if self.state == run_table.DAMAGED else self.run.folder.progress, position)


class LiveListing:
    """The grid's runs, looked at again and again.

    `published` names those that are in runs/ now, with their keys and when their results changed; `plan_times` is
    another whenever the grid was planned anew.
    """

    def __init__(self, root: Path = Path()) -> None:
        self._root = root
        self.plan_times: tuple[int, ...] = ()
        self._planned: Sequence[StoredRun] = ()
        self._settled: dict[str, tuple[tuple[int, ...], LiveRun | None]] = {}
        self.published: frozenset[tuple[Any, ...]] = frozenset()

    def poll(self) -> list[LiveRun]:
        """Return the runs that a process works or worked on and that are not published, and those that are queued."""
        live, published = [], set()
        for run in self._read_plan():
            state = self._look(run)
            if state is None:
                continue
            if state.state == run_table.PUBLISHED:
                published.add((run.name, run.key, *_times(run.published.results)))
            else:
                live.append(state)
        self.published = frozenset(published)
        return live

    def _read_plan(self) -> Sequence[StoredRun]:
        """Return the planned cells that have a key, read again where the stages `plan` or `keys` wrote a file."""
        plans = sorted((self._root / run_store.PLAN).glob("*.json"))
        keyed = [path for path in plans if (self._root / run_store.KEYS / path.name).is_file()]
        times = _times(*keyed, *(self._root / run_store.KEYS / path.name for path in keyed))
        if times != self.plan_times:
            names = [safe_names.parse_name(path.stem, str(path)) for path in keyed]
            self._planned = [run for name in names for run in run_store.load_planned(name, self._root)]
            self._settled, self.plan_times = {}, times
        return self._planned

    def _look(self, run: StoredRun) -> LiveRun | None:
        """Return the state of a run, from memory where it was over and no file of it changed since."""
        folder = run.folder
        times = _times(folder.path, folder.lives, folder.metrics, folder.job, run.published.trained.environment)
        known_times, known_state = self._settled.get(run.name, ((), None))
        if times == known_times:
            return known_state
        state = _read_state(run)
        if state and state.state != run_table.PUBLISHED and state.is_under_way:
            self._settled.pop(run.name, None)
        elif max(times) < time.time_ns() - MOMENT_NS:  # a second change within a tick of the clock would not show
            self._settled[run.name] = (times, state)
        return state


def _read_state(run: StoredRun) -> LiveRun | None:
    """Read the state of a run; None of one that nobody sent yet."""
    if run.published.trained.run_key == run.key:
        return LiveRun(run, run_table.PUBLISHED)
    if not run.folder.path.is_dir():
        return None
    row = run_table.make_row(ListedRun(run.name, run.folder, run.resolved["train"]))
    return LiveRun(run, row.state, row.error)


def _times(*paths: Path) -> tuple[int, ...]:
    """Return when each path changed; 0 for one that is not there."""
    times = []
    for path in paths:
        try:
            times.append(os.stat(path).st_mtime_ns)
        except OSError:
            times.append(0)
    return tuple(times)

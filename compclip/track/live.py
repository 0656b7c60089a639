"""Runs of the grid that are not published yet, as their files show them: state, tags, and the new lines of a curve."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from compclip.base import files
from compclip.base.shared_folders import read_user
from compclip.report.escape import to_markdown
from compclip.runs import jobs, progress, run_store, run_table
from compclip.runs.run_store import StoredRun
from compclip.runs.run_table import ListedRun
from compclip.track import entries

PREFIX = "live/"  # of the keys of their MLflow runs
# MLflow's word for each state of `compclip status`; a run that nobody trains and that logged nothing was stopped, too.
STATUSES = {
    **dict.fromkeys((jobs.RUNNING, run_table.SCORING), "RUNNING"),
    jobs.PENDING: "SCHEDULED",
    **dict.fromkeys((jobs.FAILED, run_table.DAMAGED), "FAILED"),
    **dict.fromkeys((run_table.STOPPED, run_table.STALE), "KILLED"),
    **dict.fromkeys((run_table.TRAINED, jobs.DONE, run_table.PUBLISHED), "FINISHED"),
}
UNDER_WAY = ("RUNNING", "SCHEDULED")


@dataclass(frozen=True)
class LiveRun:
    """A planned run; `state` as `compclip status` has it, `error` why it failed."""

    run: StoredRun
    state: str
    error: str = ""

    @property
    def key(self) -> str:
        """The key of its MLflow run: the same however often the run goes on."""
        return f"{PREFIX}{self.run.name}/{self.run.key}"

    @property
    def status(self) -> str:
        """MLflow's word for the state."""
        return STATUSES[self.state]

    @property
    def is_under_way(self) -> bool:
        """Whether somebody works on it, or will."""
        return self.status in UNDER_WAY

    @property
    def is_shown(self) -> bool:
        """Whether a process ever worked on it, and it is not published."""
        return self.state != run_table.PUBLISHED and self.run.folder.lives.is_dir()

    @property
    def signature(self) -> tuple[Any, ...]:
        """Another one whenever there is something new to log."""
        changing = self.run.published.results if self.state == run_table.PUBLISHED else self.run.folder.progress
        file = changing.stat() if changing and changing.exists() else None
        return self.state, self.error, self.is_shown, file and (file.st_ino, file.st_size, file.st_mtime_ns)

    @cached_property
    def lives(self) -> list[dict[str, Any]]:
        """What the processes that worked on it noted, in order."""
        return list(progress.read_lives(self.run.folder).values())

    @property
    def tags(self) -> dict[str, str]:
        """Its cell, whose it is, its state, and a description."""
        host = self.lives[-1].get("host", "") if self.lives else ""
        facts = {"run_key": self.run.key, "user": read_user(os.stat(self.run.folder.lives).st_uid), "host": host}
        note = f"**{to_markdown(self.run.name)}** is {self.state} and not published yet. {to_markdown(self.error)}"
        tags = {"kind": "cell", entries.GRID: "true", **entries.cell_tags(self.run.cell, facts), "state": self.state}
        return tags | {entries.NOTE: note.rstrip()[: entries.NOTE_LIMIT]}

    @property
    def start(self) -> float:
        """When a process first worked on it, in seconds since the epoch."""
        return self.lives[0]["started"] if self.lives else os.stat(self.run.folder.lives).st_mtime

    @property
    def end(self) -> float:
        """When its log was last written; when it began, without one."""
        log = self.run.folder.progress
        return log.stat().st_mtime if log else self.start

    def read_rows(self, last: int) -> list[dict[str, Any]]:
        """Read the complete lines of its curve behind step `last`, from the end; none of a run whose files are damaged.

        A trainer that goes on from a checkpoint makes some steps again: those up to `last` have the same numbers.
        """
        log = self.run.folder.progress
        if not log or self.state == run_table.DAMAGED:
            return []
        rows = []
        for line in reversed(log.read_bytes().split(b"\n")[:-1]):
            row = files.parse_json(line.decode(errors="replace"), str(log), "train the run again")
            if row["step"] <= last:
                break
            rows.append(row)
        return rows[::-1]


def list_runs(root: Path = Path()) -> list[LiveRun]:
    """List the planned runs that have a key, as they are now."""
    return [_read_state(run) for run in run_store.list_planned(root)]


def _read_state(run: StoredRun) -> LiveRun:
    if run.published.trained.run_key == run.key:
        return LiveRun(run, run_table.PUBLISHED)
    if not run.folder.path.is_dir():
        return LiveRun(run, run_table.STALE)
    row = run_table.make_row(ListedRun(run.name, run.folder, run.resolved["train"]))
    return LiveRun(run, row.state, row.error)

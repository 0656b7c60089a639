"""Runs, and tasks of shards, that a launch left for later: the cluster takes no more jobs of their user for now.

.work/unsent/<key>.json says how each is to be sent: in the project, never in the store, where others write, since a
profile has commands. Whoever waits for one has it sent, by a process of its own (compclip.launch.unsent), as there is
room.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from compclip.base import messages
from compclip.base.errors import one_line
from compclip.base.files import read_mapping
from compclip.runs import jobs
from compclip.runs.run_folder import RunFolder

SENDER = "compclip.launch.unsent"
TRY_AGAIN_S = 60.0
POLL_S = 0.5


@dataclass
class UnsentJob:
    """A job that is to be sent; once it was, that job."""

    folder: RunFolder
    record: dict[str, Any]
    _job: jobs.Job | None = field(default=None, init=False)
    _tried_at: float = field(default=float("-inf"), init=False)

    def is_unsent(self) -> bool:
        """Return whether nobody has sent it yet, given it up, or done its work."""
        return jobs.find_unsent_record(self.folder).is_file() and not jobs.has_finished(self.folder, self.record)

    @property
    def waits_by(self) -> str:
        """The limit that keeps it, or SLURM's reason."""
        return self._job.waits_by if self._job else self.record["limit"]

    def state(self) -> str:
        """pending until it is sent, then its job's; failed where it was given up, done where others did its work."""
        if self._job is None and self.is_unsent():
            return jobs.PENDING
        self._job = self._job or jobs.find_job(self.folder)
        if self._job:
            return self._job.state()
        return jobs.DONE if jobs.has_finished(self.folder, self.record) else jobs.FAILED

    def reason(self) -> str:
        """Why it failed."""
        return self._job.reason() if self._job else "given up before it was sent"

    def label(self) -> str:
        """The job, once it has a number."""
        return self._job.label() if self._job else "a job that is not sent yet"

    def cancel(self) -> None:
        """Give it up. Raises UserError as the others do, where it was sent."""
        jobs.find_unsent_record(self.folder).unlink(missing_ok=True)
        if self._job:
            self._job.cancel()

    def is_due(self) -> bool:
        """Return whether it is to be tried again now; that counts as a try."""
        is_due = time.monotonic() - self._tried_at >= TRY_AGAIN_S and self.is_unsent()
        if is_due:
            self._tried_at = time.monotonic()
        return is_due


def find_unsent(folder: RunFolder) -> UnsentJob | None:
    """Return a run or task that was left for later; None for every other one."""
    path = jobs.find_unsent_record(folder)
    return UnsentJob(folder, read_mapping(path)) if path.is_file() else None


def send_due(waiting: Iterable[object]) -> None:
    """Send those of the jobs that are not sent and for which there is room.

    What keeps them is a warning: they are tried again.
    """
    keys = [job.record["key"] for job in waiting if isinstance(job, UnsentJob) and job.is_due()]
    if not keys:
        return
    process = subprocess.run([sys.executable, "-m", SENDER, *keys], stderr=subprocess.PIPE, text=True)
    if process.returncode:
        messages.warn(f"not sent yet: {one_line(process.stderr)}")


def wait_until_sent(waiting: Iterable[object], poll_s: float = POLL_S) -> None:
    """Send all of the jobs that are not sent, as there is room; return when none is left."""
    unsent = [job for job in waiting if isinstance(job, UnsentJob) and job.is_unsent()]
    while unsent:
        send_due(unsent)
        time.sleep(poll_s)
        unsent = [job for job in unsent if job.is_unsent()]

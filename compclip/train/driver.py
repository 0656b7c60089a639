"""Runs of a method that are not there yet: trained side by side here, or waited for where a job was sent."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from compclip.base.errors import UserError
from compclip.runs import jobs, local, machine
from compclip.runs.local import Left, SideBySide
from compclip.runs.store import StoredRun


def train(todo: Sequence[StoredRun], method: str, params: str, landed: Callable[[StoredRun], None]) -> dict[str, str]:
    """Train runs side by side, `landed` called for each that came to its end; why others failed, by the cell's name."""
    given_up = {stored.cell.name: why for stored in todo if (why := _failed_on_cluster(stored))}
    ready = [stored for stored in todo if stored.cell.name not in given_up]
    threads = max((s.resolved["train"]["threads"] + s.resolved["train"]["workers"] for s in ready), default=1)
    driver = SideBySide(ready, params, machine.slots(threads), jobs.TRAINS, landed, _lost, _orphaned())
    signal.signal(signal.SIGTERM, local.told)
    try:
        return given_up | driver.drive()
    except KeyboardInterrupt:
        print("stopping; what trains saves first, and the same command goes on", file=sys.stderr, flush=True)
        driver.stop()
        raise SystemExit(130) from None
    except Left:
        raise SystemExit(local.going_on(driver, f"dvc repro train@{method}")) from None


def _lost(stored: StoredRun, _reason: str) -> None:
    """A cluster's job that failed while we waited: its own process may not have been able to say so."""
    if job := jobs.find(stored.folder):
        jobs.tell_found(job)


def _orphaned() -> Callable[[], bool]:
    """Whether `dvc repro`, or the shell between it and us, is no longer there."""
    before = _ancestors()
    return lambda: _ancestors() != before


def _ancestors() -> tuple[int, int]:
    parent = os.getppid()
    try:
        stat = Path(f"/proc/{parent}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return parent, 0
    return parent, int(stat.rpartition(")")[2].split()[1])


def _failed_on_cluster(stored: StoredRun) -> str:
    """Why a run is not trained here: its folder is not to be used, or its job on a cluster failed.

    What needs a cluster should not start here by itself. A process of this machine that is gone is no obstacle.
    """
    try:
        job = jobs.find(stored.folder)
    except UserError as error:
        return str(error)
    if not isinstance(job, jobs.SlurmJob) or job.state() != jobs.FAILED:
        return ""
    return _advised(stored, job)


def _advised(stored: StoredRun, job: jobs.Job) -> str:
    jobs.tell_found(job)
    print("\n".join(f"    {line}" for line in jobs.last_lines(stored.folder)), file=sys.stderr)
    return (
        f"{job.label()} failed: {job.reason()}; launch it again to go on from its last checkpoint, or "
        "`python -m compclip.launch PROFILE cancel` and it is trained here"
    )


def run_cell(stored: StoredRun) -> None:
    """Publish one cell's files: made by its job where one was sent, else here, unless the run is finished.

    Started by torchrun or srun, the processes share the training; the first one waits, locks and publishes.
    """
    from compclip.train import distributed, job

    if distributed.process().rank == 0:
        _await_job(stored)
    job.hold_and_complete(stored)
    if distributed.process().rank == 0:
        stored.publish()


def _await_job(stored: StoredRun) -> None:
    """Wait for the run's job, if it has one. Raises UserError with the reason where that ended without finishing."""
    from compclip.runs.progress import Follower

    job = jobs.find(stored.folder)
    state = job.state() if job else jobs.DONE
    if job and state in jobs.LIVE:
        print(f"{stored.cell.name}: {job.label()} trains this run ({state}); waiting for it", flush=True)
        state = jobs.wait(job, Follower(stored))
    elif isinstance(job, jobs.LocalJob):
        return
    if job and state == jobs.FAILED and not stored.finished:
        raise UserError(f"{stored.cell.name}: {_advised(stored, job)}")

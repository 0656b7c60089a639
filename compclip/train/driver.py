"""Runs of a method that are not there yet: trained side by side here, or waited for where a job was sent."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from compclip.base.errors import UserError
from compclip.runs import jobs, local_runs
from compclip.runs.local_runs import DriverStopped, LocalRunDriver
from compclip.runs.progress import Follower
from compclip.runs.run_store import StoredRun


def train_runs(
    todo: Sequence[StoredRun], method: str, params: str, on_finished: Callable[[StoredRun], None]
) -> dict[str, str]:
    """Train runs side by side; call `on_finished` for each that is done, and return why others failed, by cell name."""
    given_up = {run.cell.name: why for run in todo if (why := _failed_on_cluster(run))}
    runs_to_train = [run for run in todo if run.cell.name not in given_up]
    threads = max((run.threads for run in runs_to_train), default=1)
    driver = LocalRunDriver(
        runs_to_train,
        params,
        local_runs.list_slots(threads),
        jobs.TRAINS,
        on_finished,
        should_stop=_orphan_check(),
    )
    previous = signal.signal(signal.SIGTERM, local_runs.raise_stopped)
    try:
        return given_up | driver.drive()
    except KeyboardInterrupt:
        print("stopping; what trains saves first, and the same command goes on", file=sys.stderr, flush=True)
        driver.stop()
        raise SystemExit(130) from None
    except DriverStopped:
        raise SystemExit(local_runs.report_detached(driver, f"dvc repro train@{method}")) from None
    finally:
        signal.signal(signal.SIGTERM, previous)  # what publishes afterwards ends by it as any command


def _orphan_check() -> Callable[[], bool]:
    """Return a function that says whether a parent process (`dvc repro`, or the shell between) has ended."""
    parents = _ancestors()
    return lambda: _ancestors() != parents


def _ancestors() -> tuple[int, int]:
    parent = os.getppid()
    try:
        stat = Path(f"/proc/{parent}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return parent, 0
    return parent, int(stat.rpartition(")")[2].split()[1])


def _failed_on_cluster(run: StoredRun) -> str:
    """Return why a run is not trained here: its folder cannot be used, or its job on a cluster failed; else "".

    What needs a cluster should not start here by itself. A process of this machine that is gone is no obstacle.
    """
    try:
        job = jobs.find_job(run.folder)
        worker = jobs.find_worker(run.folder)
    except UserError as error:
        return str(error)
    if worker or not isinstance(job, jobs.SlurmJob) or job.state() != jobs.FAILED:
        return ""
    return _report_cluster_failure(run, job)


def _report_cluster_failure(run: StoredRun, job: jobs.Job) -> str:
    _, lines = jobs.read_end(run.folder)
    print("\n".join(f"    {line}" for line in lines), file=sys.stderr)
    return (
        f"{job.label()} failed: {job.reason()}; launch it again to go on from its last checkpoint, or "
        "`compclip launch PROFILE cancel` and it is trained here"
    )


def run_cell(run: StoredRun, publishes: bool = True) -> None:
    """Publish one cell's files, after its job has trained it where one was sent, else after training it here.

    Started by torchrun or srun, the processes share the training; the first one waits, locks and publishes. Without
    `publishes` the run stays in the store alone.
    """
    from compclip.train import job, process_group

    if process_group.read_process().rank == 0:
        _await_job(run)
    job.hold_and_complete(run)
    if publishes and process_group.read_process().rank == 0:
        run.publish()


def _await_job(run: StoredRun) -> None:
    """Wait for who works on the run. Raises UserError with the reason where a job ended without finishing it."""
    worker = jobs.find_worker(run.folder)
    job = worker or jobs.find_job(run.folder)
    if worker:
        state = worker.state()
        reason = f", {worker.waits_by}" if worker.waits_by else ""
        print(f"{run.cell.name}: {worker.label()} trains this run ({state}{reason}); waiting for it", flush=True)
        jobs.wait_for_job(worker, Follower(run))
    elif isinstance(job, jobs.LocalJob):
        return
    if isinstance(job, jobs.Job) and job.state() == jobs.FAILED and not run.adopt_if_finished():
        raise UserError(f"{run.cell.name}: {_report_cluster_failure(run, job)}")

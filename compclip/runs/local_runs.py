"""Runs as processes of this machine: how many it takes side by side, what each may use, and who starts them.

The processes outlive the driver, and the next one attaches.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compclip.base.errors import UserError, one_line
from compclip.runs import cluster, gpus, jobs
from compclip.runs.progress import Follower, describe_faults
from compclip.runs.run_store import StoredRun


def list_slots(threads: int) -> list[dict[str, str]]:
    """Return the environment of each slot for a run of so many threads: one a GPU, else as many as the cores carry."""
    ids = gpus.list_gpus()
    if ids:
        cores = max(1, len(os.sched_getaffinity(0)) // len(ids))
        return [{gpus.VISIBLE: name, gpus.CORES: str(cores)} for name in ids]
    return [{}] * max(1, len(os.sched_getaffinity(0)) // max(1, threads))


def divide_gpus(workers: int) -> list[dict[str, str]]:
    """Return the environment of each worker; several share a GPU where there are more workers than GPUs."""
    ids = gpus.list_gpus()
    return [{gpus.VISIBLE: ids[worker % len(ids)]} if ids else {} for worker in range(workers)]


@dataclass
class MachineSender:
    """Sends runs, as they come, to processes of this machine; each has the GPU that the fewest of them use.

    Processes that an earlier driver started count from when they are attached.
    """

    slots: Sequence[Mapping[str, str]] = field(default_factory=lambda: list_slots(1) if gpus.list_gpus() else ())
    _sent: list[jobs.LocalJob] = field(default_factory=list, init=False)

    def submit(self, run: StoredRun, params: str | Path) -> jobs.LocalJob:
        """Start a run. Raises UserError where its folder cannot be written."""
        self._sent = [job for job in self._sent if job.state() in jobs.LIVE]
        used = Counter(job.record.get("gpu") for job in self._sent)
        slot = min(self.slots, key=lambda slot: used[slot[gpus.VISIBLE]], default={})
        job = jobs.Local().submit(run, params, slot)
        self._sent.append(job)
        return job

    def attach(self, run: StoredRun) -> jobs.Worker | None:
        """Return who works on a run, wherever that is."""
        worker = jobs.find_worker(run.folder)
        if isinstance(worker, jobs.LocalJob):
            self._sent.append(worker)
        return worker


class DriverStopped(Exception):
    """The driver was told to go; the trainings go on without it."""


@dataclass
class ActiveRun:
    """A run on its way: who works on it, and the slot that it takes; none where somebody else started it."""

    run: StoredRun
    job: jobs.Worker
    slot: int | None = None


@dataclass
class LocalRunDriver:
    """Starts runs when there is room and tells what became of them.

    `slots`: the environment of each run that trains at a time. `on_done` is called for each run that came to its end.
    """

    runs: Sequence[StoredRun]
    params: str | Path
    slots: Sequence[Mapping[str, str]]
    module: str = jobs.SCORES
    on_done: Callable[[StoredRun], None] = lambda run: None
    on_failed: Callable[[StoredRun, str], None] = lambda run, reason: None  # called for each run that failed
    should_stop: Callable[[], bool] = lambda: False  # whether nobody waits for this driver any more
    poll_s: float = 0.2
    failed: dict[str, str] = field(default_factory=dict)
    _ended: int = field(default=0, init=False)
    _waiting: list[StoredRun] = field(default_factory=list, init=False)
    _active: list[ActiveRun] = field(default_factory=list, init=False)

    def drive(self) -> dict[str, str]:
        """Run everything to its end; return the reason of each failure by the cell's name.

        Raises DriverStopped where the driver is to go before.
        """
        self._waiting = [run for run in self.runs if not self._attach(run)]
        followers = {run.key: Follower(run) for run in self.runs}
        while self._active or self._waiting:
            while self._waiting and self._list_free_slots():
                self._start(self._waiting.pop(0))
            self._active = [active for active in self._active if not self._finish(active)]
            for active in self._active:
                cluster.warn_of_wait(active.job.waits_by, active.job.label())
                followers[active.run.key]()
            if self.should_stop():
                raise DriverStopped
            time.sleep(self.poll_s if self._active else 0)
        return self.failed

    def stop(self) -> None:
        """Stop the runs that this driver started, and wait until they have saved."""
        started = [active for active in self._active if active.slot is not None]
        for active in started:
            active.job.cancel()
        for active in started:
            jobs.wait_for_job(active.job, lambda: None, self.poll_s)

    @property
    def live(self) -> list[str]:
        """Names of the cells whose runs are under way."""
        return [active.run.cell.name for active in self._active]

    def _attach(self, run: StoredRun) -> bool:
        worker = jobs.find_worker(run.folder)
        trains = isinstance(worker, jobs.Job) and worker.record["module"] == jobs.TRAINS
        if worker is None or (self.module == jobs.SCORES and trains):  # results do not wait for one that only trains
            return False
        self._active.append(ActiveRun(run, worker))
        print(f"{run.cell.name}: attached to {worker.label()}", flush=True)
        return True

    def _list_free_slots(self) -> list[int]:
        """Return the free slots; a process that an earlier driver started takes one, a cluster's job none."""
        used_slots = {active.slot for active in self._active}
        unslotted = sum(active.slot is None and isinstance(active.job, jobs.LocalJob) for active in self._active)
        return [slot for slot in range(len(self.slots)) if slot not in used_slots][unslotted:]

    def _start(self, run: StoredRun) -> None:
        """Send a run to a free slot, unless somebody sent it meanwhile.

        One whose folder cannot be written leaves the others alone.
        """
        if self._attach(run):
            return
        slot = self._list_free_slots()[0]
        try:
            job = jobs.Local(self.module).submit(run, self.params, self.slots[slot])
        except UserError as error:
            self._end(run, str(error))
            return
        self._active.append(ActiveRun(run, job, slot))
        print(f"{run.cell.name}: started as {job.label()}", flush=True)

    def _finish(self, active: ActiveRun) -> bool:
        """Hand on what a run that is over left; return whether it is over."""
        state = active.job.state()
        failure = ""
        if state in jobs.LIVE:
            return False
        if state == jobs.FAILED and isinstance(active.job, jobs.Holder):
            self._waiting.append(active.run)  # it left before the end
            return True
        if state == jobs.FAILED:
            failure = active.job.reason()
        else:
            try:
                self.on_done(active.run)
            except UserError as error:
                failure = str(error)
        self._end(active.run, failure)
        return True

    def _end(self, run: StoredRun, failure: str = "") -> None:
        """Count and print a run that is over, with the reason of a failure."""
        self._ended += 1
        count = f"[{self._ended}/{len(self.runs)}]"
        if not failure:
            print(f"{count} {run.cell.name}: done{describe_faults(run.folder)}", flush=True)
            return
        print(f"{count} failed: {run.cell.name}: {one_line(failure)}", flush=True)
        self.failed[run.cell.name] = failure
        self.on_failed(run, failure)


def raise_stopped(number: int, _frame: object) -> None:
    """Handle a signal by stopping the driver; the trainings go on."""
    raise DriverStopped(signal.Signals(number).name)


def report_detached(driver: LocalRunDriver, again: str) -> int:
    """Print which runs go on without the driver and how to attach to them; return the exit code."""
    names = ", ".join(driver.live) or "nothing"
    print(f"stopped; in the background train on: {names}; `{again}` attaches", file=sys.stderr, flush=True)
    return 143

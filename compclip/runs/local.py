"""Runs as processes of this machine, so many at a time; they outlive this driver, and the next one attaches."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compclip.base.errors import UserError
from compclip.runs import jobs
from compclip.runs.progress import Follower
from compclip.runs.store import StoredRun


class Left(Exception):
    """The driver was told to go; the trainings go on without it."""


@dataclass
class Flight:
    """A run on its way: its job, and the slot that it takes; none where somebody else started it."""

    stored: StoredRun
    job: jobs.Job
    slot: int | None = None


@dataclass
class SideBySide:
    """Starts runs when there is room and tells what became of them.

    `slots`: the environment of each run that trains at a time. `landed` is called for each run that came to its end.
    """

    runs: Sequence[StoredRun]
    params: str | Path
    slots: Sequence[Mapping[str, str]]
    module: str = jobs.SCORES
    landed: Callable[[StoredRun], None] = lambda stored: None
    lost: Callable[[StoredRun, str], None] = lambda stored, reason: None  # called for each run that failed
    gone: Callable[[], bool] = lambda: False  # whether nobody waits for this driver any more
    poll_s: float = 0.2
    failed: dict[str, str] = field(default_factory=dict)
    _over: int = field(default=0, init=False)
    _flying: list[Flight] = field(default_factory=list, init=False)

    def drive(self) -> dict[str, str]:
        """Bring all runs to an end; why those failed that did, by the cell's name.

        Raises Left where the driver is to go before.
        """
        waiting = [stored for stored in self.runs if not self._attached(stored)]
        followers = {stored.key: Follower(stored) for stored in self.runs}
        while self._flying or waiting:
            while waiting and self._free():
                self._start(waiting.pop(0))
            self._flying = [flight for flight in self._flying if not self._landed(flight)]
            for flight in self._flying:
                followers[flight.stored.key]()
            if self.gone():
                raise Left
            time.sleep(self.poll_s if self._flying else 0)
        return self.failed

    def stop(self) -> None:
        """Stop the runs that this driver started, and wait until they have saved."""
        own = [flight for flight in self._flying if flight.slot is not None]
        for flight in own:
            flight.job.cancel()
        for flight in own:
            jobs.wait(flight.job, lambda: None, self.poll_s)

    @property
    def live(self) -> list[str]:
        """The cells on their way."""
        return [flight.stored.cell.name for flight in self._flying]

    def _attached(self, stored: StoredRun) -> bool:
        job = jobs.attach(stored.folder)
        if job is None or (self.module == jobs.SCORES and job.record["module"] == jobs.TRAINS):
            return False  # a process of ours waits behind one that only trains, and scores
        self._flying.append(Flight(stored, job))
        self._say(f"{stored.cell.name}: attached to {job.label()}")
        return True

    def _free(self) -> list[int]:
        """The slots that nobody takes; a process that an earlier driver started takes one, a cluster's job none."""
        taken = {flight.slot for flight in self._flying}
        others = sum(flight.slot is None and isinstance(flight.job, jobs.LocalJob) for flight in self._flying)
        return [slot for slot in range(len(self.slots)) if slot not in taken][others:]

    def _start(self, stored: StoredRun) -> None:
        """Send a run to a free slot, unless somebody sent it meanwhile.

        One whose folder cannot be written leaves the others alone.
        """
        if self._attached(stored):
            return
        slot = self._free()[0]
        try:
            job = jobs.Local(self.module).submit(stored, self.params, self.slots[slot])
        except UserError as error:
            self._fail(stored, str(error))
            return
        self._flying.append(Flight(stored, job, slot))
        self._say(f"{stored.cell.name}: started as {job.label()}")

    def _landed(self, flight: Flight) -> bool:
        state, stored = flight.job.state(), flight.stored
        if state in jobs.LIVE:
            return False
        if state == jobs.FAILED:
            self._fail(stored, flight.job.reason())
            return True
        try:
            self.landed(stored)
        except UserError as error:
            self._fail(stored, str(error))
            return True
        self._over += 1
        self._say(f"[{self._over}/{len(self.runs)}] {stored.cell.name}: done")
        return True

    def _fail(self, stored: StoredRun, reason: str) -> None:
        self._over += 1
        self.failed[stored.cell.name] = reason
        self._say(f"[{self._over}/{len(self.runs)}] failed: {stored.cell.name}: {reason}")
        self.lost(stored, reason)

    def _say(self, line: str) -> None:
        print(line, flush=True)


def told(number: int, _frame: object) -> None:
    """A handler of signals that lets the trainings go on."""
    raise Left(signal.Signals(number).name)


def going_on(driver: SideBySide, again: str) -> int:
    """Say what goes on without the driver, and how to attach; gives the exit code."""
    listed = ", ".join(driver.live) or "nothing"
    print(f"stopped; in the background train on: {listed}; `{again}` attaches", file=sys.stderr, flush=True)
    return 143

"""Runs as processes of this machine, so many at a time; they outlive this driver, and the next one attaches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compclip.base.errors import UserError
from compclip.runs import jobs
from compclip.runs.progress import Follower
from compclip.runs.publish import Publisher


@dataclass
class Driver:
    """Starts runs when there is room and tells what became of them."""

    runs: Sequence[Publisher]
    params: str
    workers: int
    root: Path = Path(".")
    poll_s: float = 0.2
    failed: list[str] = field(default_factory=list)
    _over: int = field(default=0, init=False)

    def drive(self) -> list[str]:
        """Bring all runs to an end; the reasons of those that failed."""
        sender, waiting = jobs.Local(self.root), list(self.runs)
        flying = [(p, job) for p in waiting if (job := sender.attach(p.key))]
        for publisher, job in flying:
            waiting.remove(publisher)
            self._say(f"{publisher.run.cell.name}: attached to {job.label()}")
        followers = {p.key: Follower(p.work, p.run) for p in self.runs}
        while flying or waiting:
            while waiting and len(flying) < self.workers:
                publisher = waiting.pop(0)
                if job := self._started(sender, publisher):
                    flying.append((publisher, job))
            flying = [flight for flight in flying if not self._landed(*flight)]
            for publisher, _ in flying:
                followers[publisher.key]()
            time.sleep(self.poll_s if flying else 0)
        return self.failed

    def _started(self, sender: jobs.Local, publisher: Publisher) -> jobs.Job | None:
        """A run's job; nothing where its folder cannot be written, which leaves the other runs alone."""
        name = publisher.run.cell.name
        try:
            job = sender.submit(publisher.key, self.params, publisher.run)
        except UserError as error:
            self._failed(name, str(error))
            return None
        self._say(f"{name}: started as {job.label()}")
        return job

    def _landed(self, publisher: Publisher, job: jobs.Job) -> bool:
        state, name = job.state(), publisher.run.cell.name
        if state in (jobs.PENDING, jobs.RUNNING):
            return False
        if state == jobs.DONE:
            self._over += 1
            self._say(f"[{self._over}/{len(self.runs)}] {name}: done")
        else:
            self._failed(name, job.reason())
        return True

    def _failed(self, name: str, reason: str) -> None:
        self._over += 1
        self.failed.append(f"{name}: {reason}")
        self._say(f"[{self._over}/{len(self.runs)}] failed: {self.failed[-1]}")

    def _say(self, line: str) -> None:
        print(line, flush=True)

"""Machines that hold leases, their clocks, and threads of them that take turns at each call to the file system."""

import contextlib
import functools
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from compclip.runs import lock
from compclip.runs.lock import Lease
from compclip.runs.run_folder import RunFolder

# What a lease asks the file system for, a step each.
CALLS = ("open", "utime", "stat", "unlink", "close")


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def stamp(run: RunFolder, ahead: float) -> None:
    """Touch the last lease as its holder does, whose clock is so many seconds ahead."""
    then = time.time() + ahead
    os.utime(run.lease(run.leases()[-1]), (then, then))


def outlived(run: RunFolder, machine: str) -> Lease:
    """A process of a machine that has seen the last lease stand still for long enough."""
    clock = Clock()
    assert not claim(run, machine, clock).take(locked=False)
    clock.now += lock.DEAD_S
    return claim(run, machine, clock)


def claim(run: RunFolder, machine: str, clock: Callable[[], float] = time.monotonic) -> Lease:
    return Lease(run, machine, clock)


class Stepped:
    """Threads that take turns at each call to the file system, in an order that a test draws."""

    def __init__(self, order: list[int], actors: int) -> None:
        self.order, self.mine = iter(order), threading.local()
        self.gates = [threading.Semaphore(0) for _ in range(actors)]
        self.said: queue.Queue[int | None] = queue.Queue()  # who waits for a turn, or None: one is through

    def step(self) -> None:
        """Wait for this thread's turn; a thread that takes none goes on."""
        number = getattr(self.mine, "number", None)
        if number is not None:
            self.said.put(number)
            assert self.gates[number].acquire(timeout=60)

    def drive(self, actors: list[Callable[[], None]]) -> None:
        """Run all of them to their ends; one at a time moves."""
        with ThreadPoolExecutor(len(actors)) as pool:
            through = [pool.submit(self._act, number, actor) for number, actor in enumerate(actors)]
            waiting = [self.said.get(timeout=60) for _ in actors]
            while waiting:
                waiting.sort()
                self.gates[waiting.pop(next(self.order, 0) % len(waiting))].release()
                if (number := self.said.get(timeout=60)) is not None:
                    waiting.append(number)
            for future in through:
                future.result()

    def _act(self, number: int, actor: Callable[[], None]) -> None:
        self.mine.number = number
        try:
            self.step()
            actor()
        finally:
            self.said.put(None)

    def os(self) -> SimpleNamespace:
        """The module `os`, a step before each call."""
        return SimpleNamespace(
            **{name: getattr(os, name) for name in ("O_CREAT", "O_EXCL", "O_WRONLY", "getpid", "_exit")},
            **{name: functools.partial(self._call, getattr(os, name)) for name in CALLS},
        )

    def _call(self, function: Callable, *args: object, **options: object) -> object:
        self.step()
        return function(*args, **options)


@contextlib.contextmanager
def stepped(order: list[int], actors: int) -> Iterator[Stepped]:
    """Leases whose calls take turns."""
    steps, leases = Stepped(order, actors), RunFolder.leases
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "os", steps.os())
        patch.setattr(RunFolder, "leases", lambda self: (steps.step(), leases(self))[1])
        yield steps

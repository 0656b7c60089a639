"""Signs of life between the processes of a run: where one dies, the others end, and do not hold their GPUs for hours.

A collective of NCCL waits for a dead process until the group's own timeout, which must be long: the others wait for the
first one while it scores. Each process counts up a number of its own in the group's store, and reads the others'.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator

import torch.distributed as dist

BEAT_S = 5.0
PATIENCE_BEATS = 15  # without a sign of life; not in seconds, so that a job that was suspended as a whole goes on
LEFT = 1 << 40  # added to the number of a process that came to its end
GONE = 74  # the exit code of a process whose run lost another one


class Watch:
    """What one process of a run hears of the others."""

    def __init__(self, store: dist.Store, rank: int, world: int) -> None:
        self._store, self._rank = dist.PrefixStore("liveness", store), rank
        self._beats = 0
        self._numbers = {other: 0 for other in range(world) if other != rank}
        self._heard_at = dict.fromkeys(self._numbers, 0.0)  # in beats

    def exchange(self) -> None:
        """Give a sign of life and read the others'. A store whose host is gone gives none."""
        with contextlib.suppress(RuntimeError):
            self._store.add(str(self._rank), 1)
            for other, before in self._numbers.items():
                number = self._store.add(str(other), 0)
                if number != before:
                    self._heard_at[other] = math.inf if number >= LEFT else self._beats
                    self._numbers[other] = number

    def silent(self) -> list[int]:
        """Count a beat; the processes that have given no sign of life for too many."""
        self._beats += 1
        return [other for other, at in self._heard_at.items() if self._beats - at > PATIENCE_BEATS]

    def say_left(self) -> None:
        """Tell the others that this process came to its end."""
        with contextlib.suppress(RuntimeError):
            self._store.add(str(self._rank), LEFT)

    def leave_if_alone(self) -> None:
        """End this process if another is lost; its main thread may wait where no exception reaches it."""
        for other in self.silent():
            silence = f"process {other} of this run gave no sign of life for {PATIENCE_BEATS * BEAT_S:.0f} s"
            print(
                f"error: {silence}; leaving; the same command goes on from the last checkpoint",
                file=sys.stderr,
                flush=True,
            )
            os._exit(GONE)


@contextlib.contextmanager
def watching(store: dist.Store, rank: int, world: int) -> Iterator[None]:
    """Watch over the other processes of a run meanwhile; to them, one that ends by an error is lost as well."""
    watch, over = Watch(store.clone(), rank, world), threading.Event()
    # two threads: a call to a store whose host stands still does not come back
    threads = [_repeat(work, over) for work in (watch.exchange, watch.leave_if_alone)]
    try:
        yield
        watch.say_left()
    except SystemExit:  # a signal asked all of them to stop
        watch.say_left()
        raise
    finally:
        over.set()
        for thread in threads:
            thread.join(BEAT_S)


def _repeat(work: Callable[[], None], over: threading.Event) -> threading.Thread:
    """A thread that does some work at each beat."""

    def run() -> None:
        while not over.wait(BEAT_S):
            work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread

"""Threads and processes beside one that works: work within a time, pools that end with it, the memory they share.

OpenMP's threads sleep while they wait. By default they spin at every barrier for milliseconds: where another process
has one of the cores, each barrier waits for a thread that has no core while the others burn theirs. OpenMP reads the
setting as torch is loaded.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from multiprocessing import connection
from pathlib import Path
from typing import TypeVar

TICK_S = 0.2  # between two calls of `allowed`
CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # a user who sets one of these has chosen
Result = TypeVar("Result")


def run_while(allowed: Callable[[], bool], work: Callable[[], Result]) -> Result:
    """Return the result of `work`, or raise what it raises.

    Raises TimeoutError when `allowed` gives False; the thread goes on then, and ends with the process.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # for the thread that waits
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    while not wait([future], TICK_S).done:
        if not allowed():
            raise TimeoutError
    return future.result()


def run_within(seconds: float, work: Callable[[], Result]) -> Result:
    """Return the result of `work`; raise TimeoutError where it takes longer than `seconds`."""
    end = time.monotonic() + seconds
    return run_while(lambda: time.monotonic() < end, work)


def passive_waiting(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add to a process's environment; none where the user has chosen already."""
    return {"OMP_WAIT_POLICY": "passive"} if environment.keys().isdisjoint(CHOICES) else {}


# --- processes of a pool --------------------------------------------------------------------------------------------
# Processes of a pool that end with the process which started them, however that ends.


def end_with_parent() -> None:
    """Let this process end as soon as its parent has: a pool's `initializer`.

    A worker of concurrent.futures whose parent was killed would wait for its next task for ever, with all its memory:
    workers hold the other end of the pipe themselves.
    """
    parent = multiprocessing.parent_process()
    if parent:
        threading.Thread(target=_wait_and_leave, args=(parent.sentinel,), daemon=True).start()


def _wait_and_leave(parent_sentinel: int) -> None:
    connection.wait([parent_sentinel])
    os._exit(1)


# --- shared memory --------------------------------------------------------------------------------------------------
# The memory that processes of one machine share, by which workers pass batches.


FOLDER = Path("/dev/shm")
CONTROL_GROUPS = Path("/sys/fs/cgroup")
KILL_COUNTS = ("memory.events", "memory.oom_control")  # of version 2, and of version 1


def count_memory_kills(groups: str | Path = "/proc/self/cgroup") -> int | None:
    """Return how many processes of this one's control group were ever killed for want of memory; None where unknown."""
    try:
        lines = Path(groups).read_text(encoding="utf-8").splitlines()
    except OSError:  # no Linux
        return None
    for controllers, name in (line.split(":", 2)[1:] for line in lines if line.count(":") >= 2):
        folder = CONTROL_GROUPS / controllers
        # a container may see its own group as the root
        for place in (folder / name.lstrip("/"), folder):
            for path in (place / file for file in KILL_COUNTS if controllers in ("", "memory")):
                match = re.search(r"^oom_kill (\d+)$", path.read_text(), re.MULTILINE) if path.is_file() else None
                if match:
                    return int(match[1])
    return None


def measure_free() -> int | None:
    """Return the free bytes; None where a system has no such folder, and shared memory bounds nothing."""
    if not FOLDER.is_dir():
        return None
    room = os.statvfs(FOLDER)
    return room.f_bavail * room.f_frsize

"""What a process takes, told by itself in a process of its own: anonymous and mapped memory, seconds, CPU seconds.

Anonymous memory is what a process holds alone. Mapped are files' pages, which the system takes back when it likes.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from perf.checkout import ROOT, environment

EVERY_S = 0.01


def memory(pid: int | str = "self") -> dict[str, float]:
    """MiB of a process: anonymous, mapped, and those that it shares with nobody."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]
    kib = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
    kib_by_kind = {
        "anonymous": kib["Anonymous"],
        "mapped": kib["Rss"] - kib["Anonymous"],
        "own_dirty": kib["Private_Dirty"],
    }
    return {name: round(value / 1024, 1) for name, value in kib_by_kind.items()}


@contextlib.contextmanager
def peak() -> Iterator[dict[str, float]]:
    """The most anonymous memory of this process while the context lasts, in MiB, above what it had before."""
    memory_peak, start_mib, stopped = {"mib": 0.0}, memory()["anonymous"], threading.Event()

    def watch() -> None:
        while not stopped.wait(EVERY_S):
            memory_peak["mib"] = max(memory_peak["mib"], round(memory()["anonymous"] - start_mib, 1))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield memory_peak
    finally:
        memory_peak["mib"] = max(memory_peak["mib"], round(memory()["anonymous"] - start_mib, 1))
        stopped.set()
        watcher.join()


def call_in_fresh_process(work: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """What `work(*args)` tells, called in a fresh process, which imports its module and no main one; `args` are words,
    numbers and truths. Raises RuntimeError where that fails.
    """
    path = Path(work.__code__.co_filename).resolve().relative_to(ROOT)  # of a program `__module__` says `__main__`
    module = ".".join(path.with_suffix("").parts)
    code = f"import json; from {module} import {work.__name__} as work; print(json.dumps(work(*{args!r})))"
    env = environment(ROOT) | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    process = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
    if process.returncode:
        raise RuntimeError(f"{work.__name__}: its process failed")
    return json.loads(process.stdout.splitlines()[-1])


@contextlib.contextmanager
def spent() -> Iterator[dict[str, float]]:
    """Wall and CPU seconds of this process and of children that ended, and the MiB of the largest of each so far."""
    figures: dict[str, float] = {}
    wall, own_start, children_start = time.perf_counter(), *map(resource.getrusage, _WHO)
    yield figures
    figures["wall_s"] = round(time.perf_counter() - wall, 2)
    now = [resource.getrusage(who) for who in _WHO]
    times = [
        a.ru_utime + a.ru_stime - b.ru_utime - b.ru_stime for a, b in zip(now, (own_start, children_start), strict=True)
    ]
    figures["cpu_s"] = round(sum(times), 2)
    figures["driver_mib"], figures["worker_mib"] = (round(a.ru_maxrss / 1024, 1) for a in now)


_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)

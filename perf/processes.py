"""Processes as the kernel tells of them: waited for, held where they are, found by their session."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 300


def wait(true: Callable[[], object], poll_s: float = 0.02) -> None:
    """Until a condition holds. Raises TimeoutError where it does not for long."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing moved for {PATIENCE_S} s")
        time.sleep(poll_s)


def status(pid: int) -> dict[str, str]:
    """What the kernel says of a process; empty for one that is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def hold(pid: int) -> None:
    """Stop a process where it is."""
    os.kill(pid, signal.SIGSTOP)
    wait(lambda: status(pid).get("State", "Z")[0] in "TZX", 0.001)


def in_session(leader: int, argument: str) -> int:
    """A process of a session with an argument on its command line; 0 where there is none."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            session = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()[3]
            if int(session) == leader and argument.encode() in (path / "cmdline").read_bytes().split(b"\0"):
                return int(path.name)
    return 0

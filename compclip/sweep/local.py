"""Runs of a sweep as processes of this machine that outlive their driver; who holds a run key's lock is alive."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from compclip import config
from compclip.files import write_atomic
from compclip.sections import Run

MODULE = "compclip.sweep.job"
WORK = Path(".work")


@dataclass
class Job:
    """A run's process: our child, or one that an earlier driver started."""

    key: str
    child: subprocess.Popen | None = None

    def state(self) -> str:
        """running, done or failed."""
        alive = self.child.poll() is None if self.child else holder(self.key) is not None
        if alive:
            return "running"
        return "done" if (WORK / self.key / "final" / "results" / "summary.json").is_file() else "failed"

    def reason(self) -> str:
        """The last line that it wrote, and how it ended where that is known."""
        path = WORK / self.key / "job.log"
        lines = path.read_text(errors="replace").split("\n") if path.is_file() else []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "nothing logged")
        code = self.child.poll() if self.child else None
        ended = "" if code is None else f"signal {signal.Signals(-code).name}: " if code < 0 else f"exit code {code}: "
        return f"{ended}{last} ({path})"

    def cancel(self) -> None:
        """SIGTERM: the trainer saves its state and leaves. Another command that trains this key is left alone."""
        pid = self.child.pid if self.child else holder(self.key)
        if pid and (self.child is None or self.child.poll() is None):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


class Local:
    """Processes of this machine; how many at a time is the driver's business."""

    def submit(self, key: str, params: str, run: Run) -> Job:
        """Start a run. Its process leads a session of its own, so that Ctrl-C at the driver does not reach it."""
        work = WORK / key
        write_atomic(work / "run.yaml", config.to_yaml(run))
        write_atomic(work / "params.yaml", Path(params).read_bytes())
        with open(work / "job.log", "ab") as log:
            command = [sys.executable, "-m", MODULE, key]
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        return Job(key, child)

    def attach(self, key: str) -> Job | None:
        """The live process of a run key, if a sweep started it."""
        return Job(key) if holder(key) is not None else None


def holder(key: str) -> int | None:
    """The process of a sweep that holds a run key's lock."""
    path = WORK / key / "lock"
    if not path.is_file():
        return None
    with open(path, encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _ours(file.read().strip(), key)
    return None


def _ours(pid: str, key: str) -> int | None:
    try:
        command = Path(f"/proc/{int(pid)}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return int(pid) if MODULE.encode() in command and key.encode() in command else None

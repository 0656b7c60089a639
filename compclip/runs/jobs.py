"""Runs that train in processes of their own: on this machine, or on a cluster where launch.py sent them.

A job works in .work/<run key>/: run.yaml and params.yaml say what it does, job.json who does it, job.log what it said.
It outlives whoever started it; the next driver attaches. `python -m compclip.launch.job KEY` is what it runs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from compclip.base.errors import UserError, one_line
from compclip.base.files import read_json, write_atomic, write_json
from compclip.config import read
from compclip.config.sections import Run
from compclip.runs import cluster

MODULE = "compclip.launch.job"
TAIL_BYTES = 8192
FULL_BYTES = 65536
PENDING, RUNNING, DONE, FAILED = "pending", "running", "done", "failed"


class Job(Protocol):
    """A run that was sent somewhere."""

    key: str

    def state(self) -> str:
        """pending, running, done or failed."""

    def reason(self) -> str:
        """Why it failed, one line with the last thing it logged."""

    def label(self) -> str:
        """What a person calls it: a process or a job of the cluster."""

    def cancel(self) -> None:
        """Stop it; it saves its state first."""


@dataclass
class LocalJob:
    """A process of this machine: our child, or one that an earlier driver started."""

    key: str
    record: dict[str, Any]
    root: Path = Path(".")
    child: subprocess.Popen | None = None

    def state(self) -> str:
        """running, done or failed."""
        if self._alive():
            return RUNNING
        failed = self.child and self.child.returncode
        return FAILED if failed or not scored(self.key, self.root) else DONE

    def _alive(self) -> bool:
        """By its exit status where it is our child: a process whose threads are still ending looks gone before."""
        if self.child:
            return self.child.poll() is None
        return started(self.record["pid"]) == self.record["started"]

    def reason(self) -> str:
        """How it ended where that is known, and the last line that it logged."""
        code, said = self.child.poll() if self.child else None, last_line(self.key, self.root)
        return said if not code and said.startswith("error:") else f"{_ended(code)}: {said}"

    def label(self) -> str:
        """The process."""
        return f"process {self.record['pid']}"

    def cancel(self) -> None:
        """SIGTERM: the trainer saves between two steps and leaves."""
        if self.state() == RUNNING:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.record["pid"], signal.SIGTERM)


def _ended(code: int | None) -> str:
    if not code:
        return "gone"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


@dataclass
class SlurmJob:
    """A job of a SLURM cluster, by its id."""

    key: str
    record: dict[str, Any]
    root: Path = Path(".")
    _last: str = field(default=PENDING, init=False)

    @property
    def id(self) -> str:
        """`id`, or `array_index`."""
        return self.record["id"]

    def state(self) -> str:
        """pending, running, done or failed; while SLURM does not answer, done by its files or what it was before."""
        try:
            found = cluster.queue().state(self.id, self.record.get("sent", 0.0))
        except cluster.Unreachable:
            return DONE if scored(self.key, self.root) else self._last
        if found is None:
            return DONE if scored(self.key, self.root) else FAILED
        self._last = PENDING if found[0] in cluster.PENDING else RUNNING
        return self._last

    def reason(self) -> str:
        """SLURM's account of its end, and the last line that it logged."""
        logs = self.root.glob(self.record["log"].replace("_0_log", "_*_log")) if self.record["log"] else ()
        said = "\n".join(_tail(path) for path in sorted(logs))
        return f"{cluster.why(self.id, said)}: {last_line(self.key, self.root)}"

    def label(self) -> str:
        """The job."""
        return f"job {self.id}"

    def cancel(self) -> None:
        """scancel: SIGTERM first, so that the trainer saves and leaves. Raises UserError where SLURM refuses."""
        done = cluster.run("scancel", self.id)
        if done.returncode:
            raise UserError(f"job {self.id}: scancel failed: {one_line(done.stderr)}; try again when SLURM answers")


@dataclass
class Local:
    """Sends runs to processes of this machine; how many at a time is the driver's business."""

    root: Path = Path(".")
    module: str = MODULE

    def submit(self, key: str, params: str | Path, run: Run) -> LocalJob:
        """Start a run. Its process leads a session of its own, so that Ctrl-C at the driver does not reach it.

        Raises UserError where the run's folder cannot be written.
        """
        work = write_inputs(key, params, run, self.root)
        with open(work / "job.log", "ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", self.module, key], cwd=self.root, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        record = {"kind": "local", "host": socket.gethostname(), "pid": child.pid, "started": started(child.pid)}
        write_json(work / "job.json", record)
        return LocalJob(key, record, self.root, child)

    def attach(self, key: str) -> Job | None:
        """The live job of a run key, wherever it runs."""
        return attach(key, self.root)


def write_inputs(key: str, params: str | Path, run: Run, root: Path = Path(".")) -> Path:
    """What a job reads, into its folder, which is given back; later edits of `params` do not reach it."""
    work = root / ".work" / key
    write_atomic(work / "run.yaml", read.to_yaml(run))
    write_atomic(work / "params.yaml", Path(params).read_bytes())
    _mark(key, root).unlink(missing_ok=True)  # results of an earlier evaluation are not those of this job
    return work


def find(key: str, root: Path = Path(".")) -> Job | None:
    """The job that was last sent for a run key, alive or not; None for another machine's process and where none was."""
    path = root / ".work" / key / "job.json"
    if not path.is_file():
        return None
    record = read_json(path)
    if record["kind"] == "slurm":
        return SlurmJob(key, record, root)
    return LocalJob(key, record, root) if record["host"] == socket.gethostname() else None


def attach(key: str, root: Path = Path(".")) -> Job | None:
    """The live job of a run key."""
    job = find(key, root)
    return job if job and job.state() in (PENDING, RUNNING) else None


def forget(key: str, root: Path = Path(".")) -> None:
    """Take a job that is over for never sent: its run may be trained anywhere again."""
    (root / ".work" / key / "job.json").unlink(missing_ok=True)


def wait(job: Job, show: Callable[[], None], poll_s: float = 0.5) -> str:
    """Call `show` now and then until the job is over; gives done or failed."""
    while (state := job.state()) in (PENDING, RUNNING):
        show()
        time.sleep(poll_s)
    return state


def started(pid: int) -> str:
    """When a process started, in the kernel's ticks since boot, with the boot's name; empty for one that is gone."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    return "" if after_name[0] in "ZX" else f"{after_name[19]}@{boot}"


def scored(key: str, root: Path = Path(".")) -> bool:
    """Whether the job that was sent last left its results: their mark is what it writes last."""
    return _mark(key, root).is_file()


def _mark(key: str, root: Path) -> Path:
    return root / ".work" / key / "final" / "evaluated.json"


def last_line(key: str, root: Path = Path(".")) -> str:
    """The last line that a job logged, and where; a full disk, which takes no line, is named."""
    lines, log = last_lines(key, root, 1), _log(key, root)
    full = log.exists() and shutil.disk_usage(log).free < FULL_BYTES
    return f"{lines[0].strip() if lines else 'nothing logged'} ({log}{'; no space left there' if full else ''})"


def last_lines(key: str, root: Path = Path("."), most: int = 10) -> list[str]:
    """The last lines that a job logged, blank ones left out."""
    return [line.rstrip() for line in _tail(_log(key, root)).splitlines() if line.strip()][-most:]


def _log(key: str, root: Path) -> Path:
    return root / ".work" / key / "job.log"


def _tail(path: Path) -> str:
    if not path.is_file():
        return ""
    with open(path, "rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - TAIL_BYTES))
        return file.read().decode(errors="replace")

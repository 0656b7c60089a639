"""Work in processes of its own, runs above all: on this machine, or on a cluster where launch sent it.

A job works in the run's folder of the store: run.yaml and params.yaml say what it does, job.json who does it, job.log
what it said. It outlives whoever started it; the next driver attaches. Some shards of a data set are a job as well, in
a folder of their own (runs/tasks.py).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from compclip.base import calm
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_mapping, write_atomic, write_json
from compclip.base.shared import open_plain
from compclip.config import read, structured
from compclip.config.written import plain_yaml
from compclip.runs import cluster, notify, tasks
from compclip.runs.folder import Folder
from compclip.runs.store import StoredRun

SCORES, TRAINS = "compclip.launch.job", "compclip.train.job"  # what a job runs: to the results, or to the checkpoint
SHARDS = "compclip.launch.task"
TAIL_BYTES = 8192
FULL_BYTES = 65536
PENDING, RUNNING, DONE, FAILED = "pending", "running", "done", "failed"
LIVE = (PENDING, RUNNING)
# What job.json says of each kind of job, and how it is told from a damaged one.
LOCAL: dict[str, Callable[[Any], bool]] = {
    "host": lambda v: isinstance(v, str),
    "pid": lambda v: type(v) is int and v > 1,
    "started": lambda v: isinstance(v, str),
}
SLURM: dict[str, Callable[[Any], bool]] = {
    "id": lambda v: isinstance(v, str) and re.fullmatch(r"\d[\d_+]*", v, re.ASCII) is not None,
    "log": lambda v: isinstance(v, str),
    "sent": lambda v: v is None or isinstance(v, (int, float)),
    "notify": lambda v: v is None or isinstance(v, str),
}


class Job(Protocol):
    """What was sent somewhere; its record is job.json."""

    folder: Folder
    record: dict[str, Any]

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

    folder: Folder
    record: dict[str, Any]
    child: subprocess.Popen | None = None

    def state(self) -> str:
        """running, done or failed."""
        if self._alive():
            return RUNNING
        failed = self.child and self.child.returncode
        return FAILED if failed or not reached(self.folder, self.record) else DONE

    def _alive(self) -> bool:
        """By its exit status where it is our child: a process whose threads are still ending looks gone before."""
        if self.child:
            return self.child.poll() is None
        return bool(self.record["started"]) and started(self.record["pid"]) == self.record["started"]

    def reason(self) -> str:
        """How it ended where that is known, and the last line that it logged."""
        code, said = self.child.poll() if self.child else None, last_line(self.folder)
        return said if not code and said.startswith("error:") else f"{_ended(code)}: {said}"

    def label(self) -> str:
        """The process."""
        return f"process {self.record['pid']}"

    def cancel(self) -> None:
        """SIGTERM: the trainer saves between two steps and leaves. Raises UserError for another user's process."""
        if self.state() == RUNNING:
            try:
                os.kill(self.record["pid"], signal.SIGTERM)
            except ProcessLookupError:
                return
            except PermissionError as error:
                raise UserError(f"{self.label()}: belongs to another user of the store; ask them to stop it") from error


def _ended(code: int | None) -> str:
    if not code:
        return "gone"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


@dataclass
class SlurmJob:
    """A job of a SLURM cluster, by its id."""

    folder: Folder
    record: dict[str, Any]
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
            return DONE if reached(self.folder, self.record) else self._last
        if found is None:
            return DONE if reached(self.folder, self.record) else FAILED
        self._last = PENDING if found[0] in cluster.PENDING else RUNNING
        return self._last

    def reason(self) -> str:
        """SLURM's account of its end, and the last line that it logged."""
        log = Path(self.record["log"])
        logs = log.parent.glob(log.name.replace("_0_log", "_*_log")) if self.record["log"] else ()
        said = "\n".join(_tail(path) for path in sorted(logs))
        return f"{cluster.why(self.id, said)}: {last_line(self.folder)}"

    def label(self) -> str:
        """The job."""
        return f"job {self.id}"

    def cancel(self) -> None:
        """scancel: SIGTERM first, so that the trainer saves and leaves. Raises UserError where SLURM refuses."""
        done = cluster.run("scancel", self.id)
        if done.returncode:
            raise UserError(f"job {self.id}: scancel failed: {one_line(done.stderr)}; try again when SLURM answers")


@dataclass(frozen=True)
class Local:
    """Sends runs to processes of this machine; how many at a time is the driver's business."""

    module: str = SCORES

    def submit(self, stored: StoredRun, params: str | Path, environment: Mapping[str, str] | None = None) -> LocalJob:
        """Start a run. Its process leads a session of its own, so that Ctrl-C at the driver does not reach it.

        Raises UserError where the run's folder cannot be written.
        """
        folder = write_inputs(stored, params)
        with open_plain(folder.log, "ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", self.module, folder.key],
                cwd=stored.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **calm.settings(os.environ), **(environment or {})},
            )
        record = {"kind": "local", "module": self.module, "host": socket.gethostname(), "pid": child.pid}
        record["started"] = started(child.pid)
        write_json(folder.job, record)
        return LocalJob(folder, record, child)

    def attach(self, stored: StoredRun) -> Job | None:
        """The live job of a run, wherever it runs."""
        return attach(stored.folder)


def write_inputs(stored: StoredRun, params: str | Path) -> Folder:
    """What a job reads, into the run's folder, which is given back; later edits of `params` do not reach it."""
    folder = stored.folder
    folder.make()
    write_atomic(folder.run, plain_yaml(stored.resolved))
    write_atomic(folder.params, Path(params).read_bytes())
    folder.scored.unlink(missing_ok=True)  # results of an earlier evaluation are not those of this job
    return folder


def tell(folder: Folder, variable: str, job: str, why: str) -> None:
    """Post once that a run's job failed for good, with the last thing it logged."""
    if variable:
        notify.job_failed(folder, variable, job, _sent_name(folder), f"{why}: {last_line(folder)}")


def _sent_name(folder: Folder) -> str:
    """The cell as the job was sent for it, or the shards."""
    try:
        if (folder.path / tasks.FILE).is_file():
            return tasks.read(folder).name
        return structured.cell(read.raw(folder.run, ()).get("cell"), f"{folder.run}: cell").name
    except UserError:  # nobody wrote it, or it cannot be read: the message goes out
        return folder.key


def tell_found(job: Job) -> None:
    """The same of a cluster's job that was found failed: its own process may not have been able to."""
    if isinstance(job, SlurmJob) and (variable := job.record.get("notify", "")):
        notify.job_failed(job.folder, variable, job.label(), _sent_name(job.folder), job.reason())


def find(folder: Folder) -> Job | None:
    """The job that was last sent for a run, alive or not; None for another machine's process and where none was.

    Raises UserError where its record is damaged, or not all of the folder its own.
    """
    folder.check()
    if not folder.job.is_file():
        return None
    record = _record(folder)
    if record["kind"] == "slurm":
        return SlurmJob(folder, record)
    return LocalJob(folder, record) if record["host"] == socket.gethostname() else None


def _record(folder: Folder) -> dict[str, Any]:
    """What job.json says. A number of no process is never one to stop: the system takes some for all processes."""
    record = read_mapping(folder.job)
    wanted = {"slurm": SLURM, "local": LOCAL}.get(str(record.get("kind")), {})
    if not wanted or not all(fits(record.get(name)) for name, fits in wanted.items()):
        raise UserError(f"{folder.job}: not what was noted of a job; remove it when no such job runs")
    return record


def attach(folder: Folder) -> Job | None:
    """The live job of a run."""
    job = find(folder)
    return job if job and job.state() in LIVE else None


def forget(folder: Folder) -> None:
    """Take a job that is over for never sent: its run may be trained anywhere again."""
    folder.job.unlink(missing_ok=True)


def wait(job: Job, show: Callable[[], None], poll_s: float = 0.5) -> str:
    """Call `show` now and then until the job is over; gives done or failed."""
    while (state := job.state()) in LIVE:
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


def reached(folder: Folder, record: Mapping[str, Any]) -> bool:
    """Whether the job that was sent last came to its end: a checkpoint, shards, or results, whose mark comes last."""
    if record.get("module") == SHARDS:
        return tasks.made(folder)
    return folder.finished if record.get("module") == TRAINS else folder.scored.is_file()


def last_line(folder: Folder) -> str:
    """The last line that a job logged, and where; a full disk, which takes no line, is named."""
    lines, log = last_lines(folder, 1), folder.log
    full = log.exists() and shutil.disk_usage(log).free < FULL_BYTES
    return f"{lines[0].strip() if lines else 'nothing logged'} ({log}{'; no space left there' if full else ''})"


def last_lines(folder: Folder, most: int = 10) -> list[str]:
    """The last lines that a job logged, blank ones left out."""
    return [line.rstrip() for line in _tail(folder.log).splitlines() if line.strip()][-most:]


def _tail(path: Path) -> str:
    if not path.is_file():
        return ""
    with open(path, "rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - TAIL_BYTES))
        return file.read().decode(errors="replace")

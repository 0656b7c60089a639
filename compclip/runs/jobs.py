"""Work in processes of its own, runs above all: on this machine, or on a cluster where launch sent it.

A job works in the run's folder of the store: run.yaml and params.yaml say what it does, job.json who does it, job.log
what it said. It outlives whoever started it; the next driver attaches. Some shards of a data set are a job as well, in
a folder of their own (runs/shard_tasks.py).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from compclip.base import environment_variables, worker_processes
from compclip.base.errors import UserError
from compclip.base.files import read_mapping, write_atomic, write_json
from compclip.base.shared_folders import open_plain, read_user
from compclip.base.yaml_text import dump_yaml
from compclip.config import read
from compclip.config.grid import parse_cell
from compclip.runs import cluster, gpus, lock, progress, shard_tasks
from compclip.runs.run_folder import RunFolder
from compclip.runs.run_store import StoredRun

# What a job runs, as job.json records it: to the results, or to the checkpoint. A job of any other module than TRAINS
# and SHARDS ends with results.
SCORES = "compclip.launch.results_job"
TRAINS = "compclip.train.job"
SHARDS = "compclip.launch.task"
TAIL_BYTES = 8192
FEW_LINES = 4  # of a log in which the line of a failed process is looked for
PROCESS_FAILED = "error: process "  # begins that line
SENT_AGAIN = "--- sent again ---\n"  # in a log, between the jobs of a run
FULL_BYTES = 65536
PENDING = "pending"
RUNNING = "running"
DONE = "done"
FAILED = "failed"
LIVE = (PENDING, RUNNING)
# What job.json says of a cluster's job, and how: none of it can be an option, or name several jobs.
IDENTITY = {"cluster": r"\w[\w.-]*", "user": r"\w[\w.@\\$-]*", "id": r"(?a:\d[\d_+]*)", "name": r"compclip-[0-9a-f]{8}"}


@dataclass
class LocalJob:
    """A process of this machine: our child, or one that an earlier driver started."""

    folder: RunFolder
    record: dict[str, Any]
    child: subprocess.Popen | None = None
    waits_by = ""  # nothing

    def state(self) -> str:
        """running, done or failed; a process that is no child of ours is known by its start time.

        Results count more than an exit code, as of a cluster's job: a library's thread may abort Python's end. Those of
        an earlier job were removed when this one was sent; a checkpoint may be an earlier job's.
        """
        if self.child:
            running = self.child.poll() is None
            self._note_end(self.child.returncode or 0)
        else:
            running = read_start_time(self.record["pid"]) == (self.record.get("started") or "unknown")
        if running:
            return RUNNING
        failed = self.child and self.child.returncode and self.record["module"] != SCORES
        return FAILED if failed or not has_finished(self.folder, self.record) else DONE

    def reason(self) -> str:
        """How it ended where that is known, and the last line that it logged."""
        code = self.child.poll() if self.child else self.record.get("exit_code")
        last = last_line(self.folder)
        if not isinstance(code, int) or not code:
            how = f"killed{self._explain_memory()}, or its machine was restarted"
            return last if last.startswith("error:") else f"gone without an error: {how}; before it: {last}"
        if code > 0:
            return f"exit code {code}: {last}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        memory = self._explain_memory() if -code == signal.SIGKILL else ""
        return f"killed by {name}{memory}; before it: {last}"

    def _explain_memory(self) -> str:
        """Say whether the kernel killed for want of memory since the job began, where that is counted."""
        before = self.record.get("memory_kills")
        now = worker_processes.count_memory_kills()
        if now is None or not isinstance(before, int):
            return ", perhaps for want of memory"
        if now > before:
            return f" for want of memory (oom_kill of its control group rose from {before} to {now})"
        return " (its control group counts no oom_kill since the job began)"

    def _note_end(self, code: int) -> None:
        """Write how the process ended into job.json, for who looks later: its parent alone is told.

        Not where the job was forgotten, or another was sent since.
        """
        if not code or self.record.get("exit_code") == code:
            return
        with contextlib.suppress(UserError):  # nothing there, or a disk that is full
            if read_mapping(self.folder.job) == self.record:
                write_json(self.folder.job, self.record | {"exit_code": code})
        self.record["exit_code"] = code

    def label(self) -> str:
        """The process."""
        return f"process {self.record['pid']}"

    def cancel(self) -> None:
        """SIGTERM: the trainer saves between two steps and leaves. Raises UserError for another user's process."""
        if self.state() != RUNNING:
            return
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            owner = os.stat(f"/proc/{self.record['pid']}").st_uid
            if owner != os.getuid():  # an operator could end everybody's
                raise UserError(f"{self.label()}: belongs to {read_user(owner)}; ask them to stop it")
            os.kill(self.record["pid"], signal.SIGTERM)


@dataclass
class SlurmJob:
    """A job of a SLURM cluster."""

    folder: RunFolder
    record: dict[str, Any]
    waits_by: str = field(default="", init=False)  # SLURM's reason, since it was last looked at
    _last: str = field(default=PENDING, init=False)
    _read_at: float = field(default_factory=time.monotonic, init=False)

    @property
    def identity(self) -> cluster.JobIdentity:
        """What tells it from every other job."""
        texts = {name: str(self.record[name]) for name in IDENTITY}
        return cluster.JobIdentity(**texts, submitted=self.record.get("submitted", 0))

    @property
    def id(self) -> str:
        """`number`, or `array_index`."""
        return self.record["id"]

    def state(self) -> str:
        """pending, running, done or failed; while SLURM does not answer, done by its files or what it was before."""
        job = self.identity
        try:
            queued = cluster.queue(job.cluster, job.user).find(job, self._read_at)
        except cluster.Unreachable:
            return DONE if has_finished(self.folder, self.record) else self._last
        if queued is None:
            return DONE if has_finished(self.folder, self.record) else FAILED
        self._last = PENDING if queued.state in cluster.PENDING else RUNNING
        self.waits_by = queued.reason if self._last == PENDING else ""
        return self._last

    def reason(self) -> str:
        """SLURM's account of its end, and the last line that it logged."""
        log = self.folder.path / (self.record.get("log") or "none")
        logs = sorted(log.parent.glob(log.name.replace("_0_log", "_*_log")))
        logged = "\n".join(progress.read_tail(path, TAIL_BYTES).decode(errors="replace") for path in logs)
        return f"{cluster.explain_end(self.identity, logged)}: {last_line(self.folder)}"

    def label(self) -> str:
        """The job, and whose it is."""
        user = self.record["user"]
        return f"job {self.id}" if user == cluster.current_user() else f"job {self.id} of {user}"

    def cancel(self) -> None:
        """scancel: SIGTERM first, so that the trainer saves and leaves.

        Raises UserError for another user's job, which SLURM lets an operator end, and where SLURM refuses.
        """
        user = self.identity.user
        fault = f"belongs to {user}; ask them to stop it" if user != cluster.current_user() else ""
        fault = fault or cluster.cancel(self.identity)
        if fault:
            raise UserError(f"job {self.id}: {fault}")


@dataclass
class Holder:
    """A process that holds a run by lock or lease, and that no job is known of: another machine's, or by hand."""

    folder: RunFolder
    name: str
    waits_by = ""  # nothing

    def state(self) -> str:
        """running; once it left done, or failed where no results are there: whoever waited may send the run."""
        if lock.describe_holder(self.folder):
            return RUNNING
        return DONE if self.folder.scored.is_file() else FAILED

    def reason(self) -> str:
        """That it left."""
        return f"{self.name} left without results; start again"

    def label(self) -> str:
        """The process, and its host where that is another one."""
        return self.name

    def cancel(self) -> None:
        """Raise UserError: nobody here started it."""
        raise UserError(f"{self.folder.path}: {self.name} works on it and is no job; stop it where it runs")


Job: TypeAlias = LocalJob | SlurmJob  # its record is job.json
Worker: TypeAlias = Job | Holder


@dataclass(frozen=True)
class Local:
    """Sends runs to processes of this machine; how many at a time is the driver's business."""

    module: str = SCORES

    def submit(self, run: StoredRun, params: str | Path, environment: Mapping[str, str] | None = None) -> LocalJob:
        """Start a run in a session of its own, so that Ctrl-C at the driver does not reach it.

        Raises UserError where the run's folder cannot be written.
        """
        folder = write_inputs(run, params)
        with open_plain(folder.log, "ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", self.module, folder.key],
                cwd=run.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**_child_environment(), **(environment or {})},
            )
        record = {"kind": "local", "module": self.module, "host": socket.gethostname(), "pid": child.pid}
        record["started"] = read_start_time(child.pid)
        record["memory_kills"] = worker_processes.count_memory_kills()
        if environment and environment.get(gpus.VISIBLE):
            record["gpu"] = environment[gpus.VISIBLE]
        write_json(folder.job, record)
        return LocalJob(folder, record, child)


def _child_environment() -> dict[str, str]:
    """Return the environment of a process of this machine: of an enclosing allocation the cores and GPUs alone."""
    allocation = gpus.describe_allocation(os.environ)
    return allocation | environment_variables.without_place(os.environ) | worker_processes.passive_waiting(os.environ)


def write_inputs(run: StoredRun, params: str | Path) -> RunFolder:
    """Write what a job reads into the run's folder and return that; later edits of `params` do not reach it."""
    folder = run.folder
    folder.make()
    write_atomic(folder.run, dump_yaml(run.resolved))
    write_atomic(folder.params, read.write_out(Path(params)))
    mark_sent(folder)
    folder.scored.unlink(missing_ok=True)  # results of an earlier evaluation are not those of this job
    return folder


def read_name(folder: RunFolder) -> str:
    """Return the name of the cell, or of the shards, that a job was sent for."""
    if (folder.path / shard_tasks.FILE).is_file():
        return shard_tasks.read_task(folder).name
    return parse_cell(read.read_values(folder.run).get("cell"), f"{folder.run}: cell").name


def find_job(folder: RunFolder) -> Job | None:
    """Return the job last sent for a run, live or not; None for another machine's process, or without a job.

    Raises UserError where its record is damaged, or not all of the folder its own.
    """
    folder.check()
    if not folder.job.is_file():
        return None
    record = read_mapping(folder.job)
    # Others may have written it: the system takes some numbers for all processes, scancel some texts for options.
    if record.get("kind") == "slurm" and all(re.fullmatch(IDENTITY[name], str(record.get(name))) for name in IDENTITY):
        return SlurmJob(folder, record)
    if record.get("kind") != "local" or type(record.get("pid")) is not int or record["pid"] <= 1:
        raise UserError(f"{folder.job}: not what was noted of a job; remove it when no such job runs")
    return LocalJob(folder, record) if record.get("host") == socket.gethostname() else None


def find_worker(folder: RunFolder) -> Worker | None:
    """Return who works on a run, or waits in a queue to: its live job, else another process that holds it, else None.

    This is the one answer for all who show, send, stop or remove runs. Raises UserError as `find_job`.
    """
    job = _find_live_job(folder)
    if job:
        return job
    holder = lock.describe_holder(folder)
    return Holder(folder, holder) if holder else None


def _find_live_job(folder: RunFolder) -> Job | None:
    job = find_job(folder)
    return job if job and job.state() in LIVE else None


@contextlib.contextmanager
def hold_idle(folder: RunFolder) -> Iterator[None]:
    """Hold a run that nobody works on. Raises UserError where somebody does."""
    with lock.hold_at_once(folder) as ours:
        worker = _find_live_job(folder) if ours else find_worker(folder)
        if worker or not ours:
            who = f"{worker.label()} is {worker.state()}" if worker else "another process works on it"
            raise UserError(f"{folder.key}: {who}; wait for it, or stop it first")
        yield


def forget_job(folder: RunFolder) -> None:
    """Remove the record of a job that is over, so that its run may be trained anywhere again."""
    folder.job.unlink(missing_ok=True)


def wait_for_job(job: Worker, show: Callable[[], None], poll_s: float = 0.5) -> str:
    """Call `show` every `poll_s` seconds until the job is over; return done or failed."""
    state = job.state()
    while state in LIVE:
        cluster.warn_of_wait(job.waits_by, job.label())
        show()
        time.sleep(poll_s)
        state = job.state()
    return state


def read_start_time(pid: int) -> str:
    """Return when a process started, in the kernel's ticks since boot, with the boot's name.

    Empty for one that is gone.
    """
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    return "" if after_name[0] in "ZX" else f"{after_name[19]}@{boot}"


def has_finished(folder: RunFolder, record: Mapping[str, Any]) -> bool:
    """Return whether the job sent last left what it was to make: a checkpoint, shards or results."""
    if record.get("module") == SHARDS:
        return shard_tasks.is_finished(folder)
    return folder.finished if record.get("module") == TRAINS else folder.scored.is_file()


def mark_sent(folder: RunFolder) -> None:
    """Write a line into the logs of earlier jobs: what is above it is no cause of what becomes of the next one."""
    for log in folder.path.glob("job*.log"):
        with open_plain(log, "ab") as file:
            file.write(SENT_AGAIN.encode())


def last_line(folder: RunFolder) -> str:
    """Return the last line that the job sent last logged, and its log file; says so where the disk is full.

    Where one of its processes failed, that one's line: the others' later ones only say that they were stopped. Where it
    logged nothing, the last lines of the scheduler.
    """
    log, lines = read_end(folder, FEW_LINES)
    last = lines[-1:] if log == folder.log else lines
    failed = [line for line in lines if line.startswith(PROCESS_FAILED)]
    text = " / ".join(failed[:1] or last) or "nothing logged"
    full = log.exists() and shutil.disk_usage(log).free < FULL_BYTES
    return f"{text.strip()} ({log}{'; no space left there' if full else ''}{'' if log.exists() else ', not there'})"


def read_end(folder: RunFolder, most: int = 10) -> tuple[Path, list[str]]:
    """Return a log and its last lines: of the job sent last or, where that logged nothing, the scheduler's of it."""
    lines = last_lines(folder, most)
    record = {} if lines or not folder.job.is_file() else read_mapping(folder.job)
    log = Path(os.path.normpath(folder.path / str(record.get("log"))))  # relative: a project may be moved
    # Others may have written the record of a shared store: no other file is read for it.
    if log.name != f"{record.get('id')}_0_log.out" or log.is_symlink():
        return folder.log, lines
    return log, _read_lines(log)[-most:]


def last_lines(folder: RunFolder, most: int = 10, rank: int = 0) -> list[str]:
    """Return the last lines that a process of the job sent last logged, without blank ones."""
    return _read_lines(folder.log_of(rank))[-most:]


def _read_lines(log: Path) -> list[str]:
    text = progress.read_tail(log, TAIL_BYTES).decode(errors="replace").rpartition(SENT_AGAIN)[2]
    return [line.rstrip() for line in text.splitlines() if line.strip()]

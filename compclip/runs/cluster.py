"""What SLURM says of jobs: which live, and why one ended. Only its commands are called; nothing is submitted here."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import yaml

from compclip.base import environment_variables, messages
from compclip.base.errors import one_line
from compclip.base.shared_folders import read_user

PENDING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
REASONS = {
    "BOOT_FAIL": "its node did not boot", "CANCELLED": "cancelled", "DEADLINE": "its deadline passed",
    "NODE_FAIL": "its node failed", "OUT_OF_MEMORY": "out of memory; raise memory_gb in the profile",
    "PREEMPTED": "preempted", "TIMEOUT": "time limit reached; raise time_min in the profile",
}  # fmt: skip
ENDED = REASONS.keys() - {"PREEMPTED"} | {"COMPLETED", "FAILED", "REVOKED"}  # a preempted job is requeued
OUT_OF_TURNS = re.compile(r"not requeued because: timed-out")
STARVED = re.compile(r"exceeded (job )?memory limit|oom[-_ ]kill|out of memory", re.IGNORECASE)


class Unreachable(Exception):
    """SLURM did not answer; nothing is known about any job."""


@dataclass(frozen=True)
class JobIdentity:
    """One job of SLURM. Its number alone may come again: on another cluster, or when the controller counts anew.

    `id`: `number`, or `array_index`. `submitted`: seconds since the epoch by the cluster's clock, which a requeue sets
    anew; 0 where SLURM did not say.
    """

    cluster: str
    user: str
    id: str
    name: str
    submitted: int = 0


class QueuedJob(NamedTuple):
    """What the queue says of a job."""

    name: str
    submitted: int
    state: str
    reason: str


@dataclass
class Queue:
    """The live jobs of a user on a cluster, asked for at most every `max_age_s` seconds."""

    cluster: str
    user: str
    max_age_s: float = 2.0
    clock: Callable[[], float] = time.monotonic
    _asked_at: float = field(default=float("-inf"), init=False)
    _jobs: dict[str, QueuedJob] = field(default_factory=dict, init=False)
    _ended: set[JobIdentity] = field(default_factory=set, init=False)
    _fault: str = field(default="", init=False)

    def find(self, job: JobIdentity, known_since: float = float("-inf")) -> QueuedJob | None:
        """Return what the queue says of a job; None for one that is not in it, whoever has its number now.

        `known_since`: when we read of the job, by `clock`; an earlier answer may be older than the job. Raises
        Unreachable.
        """
        if self.clock() - self._asked_at > self.max_age_s:
            self._ask()
        queued = self._match(job)
        if not (queued or self._fault or job in self._ended) and self._asked_at < known_since:
            self._ask()
            queued = self._match(job)
        if self._fault:
            raise Unreachable(self._fault)
        if queued is None and self.user != current_user() and "jobs" in read_config().get("PrivateData", ""):
            raise Unreachable(f"{self.cluster} does not show the jobs of {self.user} (PrivateData)")
        if queued is None or queued.state in ENDED:
            self._ended.add(job)
            return None
        return queued

    def _match(self, job: JobIdentity) -> QueuedJob | None:
        queued = self._jobs.get(job.id)
        if queued is None or queued.name != job.name or queued.submitted < job.submitted:
            return None
        return queued

    def _ask(self) -> None:
        """Ask SLURM for the queue; print once that it does not answer, and once that it answers again."""
        asked_at = self.clock()
        previous_fault = self._fault
        self._fault = ""
        try:
            self._jobs = _list_queued(self.cluster, self.user)
            self._asked_at = asked_at
        except Unreachable as error:
            self._fault, self._asked_at = str(error), self.clock()  # an answer that took long counts from its end
        if self._fault and not previous_fault:
            messages.warn(f"SLURM does not answer ({self._fault}); waiting")
        elif previous_fault and not self._fault:
            messages.note("SLURM answers again")


@functools.cache
def queue(cluster: str, user: str) -> Queue:
    """Return this process's view of a user's jobs."""
    return Queue(cluster, user)


def current_user() -> str:
    """Return this process's user, as SLURM calls them."""
    return read_user(os.getuid())


@functools.cache
def read_config() -> dict[str, str]:
    """Return the configuration of the cluster that answers here. Raises Unreachable."""
    result = run_command("scontrol", "show", "config")
    config = dict(re.findall(r"^(\w+) *= ?(.*)$", result.stdout, re.MULTILINE))
    if result.returncode or "ClusterName" not in config:
        raise Unreachable(one_line(result.stderr) or "scontrol: no ClusterName")
    return config


def identify_sent(name: str) -> dict[str, JobIdentity]:
    """Return our jobs with this name by their ids, those that ended a moment ago too. Raises Unreachable."""
    cluster = read_config()["ClusterName"]
    user = current_user()
    queued = _list_queued(cluster, user, f"--name={name}", "--states=all")
    return {job_id: JobIdentity(cluster, user, job_id, name, job.submitted) for job_id, job in queued.items()}


def _list_queued(cluster: str, user: str, *options: str) -> dict[str, QueuedJob]:
    """List a user's jobs by their ids."""
    result = run_command(
        "squeue", *_select(cluster, user), *options, "--noheader", "--array", "--format=%i|%V|%T|%r|%j"
    )
    if result.returncode:
        raise Unreachable(one_line(result.stderr))
    rows = [line.strip().split("|", 4) for line in result.stdout.splitlines() if line.count("|") >= 4]
    return {job: QueuedJob(name, int(submitted), state, reason) for job, submitted, state, reason, name in rows}


def _select(cluster: str, user: str) -> list[str]:
    """Return what has a command speak of this user's jobs alone. Another cluster's are reached by the accounts."""
    is_here = cluster == read_config()["ClusterName"]
    return [f"--user={user}"] if is_here else [f"--user={user}", f"--clusters={cluster}"]


def cancel(job: JobIdentity) -> str:
    """Tell SLURM to end a job and no other; return why it does not, empty where it does or where the job is over."""
    try:
        queued = Queue(job.cluster, job.user).find(job)  # as it is in this moment
        selected = _select(job.cluster, job.user)
    except Unreachable as error:
        return f"{error}; try again when SLURM answers"
    if queued is None:
        return ""
    # Asked for a user or a name, scancel ends all that still wait of an array, whichever of them is given.
    waits_in_array = "_" in job.id and queued.state in PENDING
    options = selected[1:] if waits_in_array else [*selected, f"--name={job.name}"]
    result = run_command("scancel", *options, job.id)
    return f"scancel failed: {one_line(result.stderr)}; try again when SLURM answers" if result.returncode else ""


def explain_end(job: JobIdentity, log: str = "") -> str:
    """Return why a job left the queue, by the cluster's accounts or, as long as it remembers, by its controller.

    A cluster that enforces memory without control groups accounts such an end as FAILED, and so is the end of a job
    that left in time but had no requeue left: only `log`, where SLURM and submitit write, tells them apart.
    """
    if STARVED.search(log):
        return REASONS["OUT_OF_MEMORY"]
    if OUT_OF_TURNS.search(log):
        return f"{REASONS['TIMEOUT']}, or requeues"
    try:
        selected = [*_select(job.cluster, job.user), f"--name={job.name}", f"--jobs={job.id}"]
    except Unreachable as error:
        return f"SLURM does not answer ({error})"
    result = run_command("sacct", *selected, "--noheader", "--parsable2", "--format=State,ExitCode,NodeList")
    rows = [line.split("|") for line in result.stdout.splitlines() if line.count("|") == 2]
    if result.returncode == 0 and rows:
        return _explain_states(rows)
    description = run_command("scontrol", "--oneliner", "show", "job", job.id).stdout
    fields = dict(re.findall(r"(\w+)=(\S+)", description))
    if fields.get("JobName") == job.name:
        return _explain_states([[fields["JobState"], fields.get("ExitCode", ""), fields.get("NodeList", "")]])
    lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
    return f"SLURM no longer knows why: {lines[0] if lines else 'no account of it'}"


def _explain_states(rows: list[list[str]]) -> str:
    """Explain the state that says most: a job whose step ran out of memory is itself only FAILED.

    A step is cancelled by srun where one of its processes failed: of a job that says nothing.
    """
    job, *steps = [row[0].partition(" ")[0].rstrip("+") for row in rows]
    states = [job, *("" if state == "CANCELLED" else state for state in steps)]
    for state in ("OUT_OF_MEMORY", "TIMEOUT", "NODE_FAIL", *REASONS):
        if state in states:
            nodes = rows[states.index(state)][2]
            return f"{REASONS[state]} (on {nodes})" if state == "NODE_FAIL" else REASONS[state]
    return f"{states[0].lower()}, exit code {rows[0][1].partition(':')[0]}"


def run_command(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a SLURM command. One that is not installed or hangs gives exit code 127 and says so in stderr."""
    try:
        environment = environment_variables.without_defaults(os.environ)
        environment |= {"SLURM_TIME_FORMAT": "%s"}  # times are numbers
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: not installed on this machine")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: no answer in 60 s")


# Why a job of a cluster waits, and where time alone does not help, the command that does.

WAITING_REASONS = Path(__file__).with_name("waiting_reasons.yaml")


@functools.cache
def _read_reasons() -> dict[str, str]:
    """Return what helps against a wait that never ends by itself, by a pattern of SLURM's reason."""
    reasons: dict[str, str] = yaml.safe_load(WAITING_REASONS.read_text(encoding="utf-8"))
    return reasons


@functools.cache
def explain_wait(reason: str, job: str) -> str:
    """Return why `job 12_3` will not start by itself, with the command that helps; "" where time will do."""
    text = next((text for pattern, text in _read_reasons().items() if re.fullmatch(pattern, reason)), "")
    number = "".join(re.findall(r"\d+", job)[:1])  # of the array
    if "{partition}" in text:
        name = run_command("squeue", "--noheader", f"--jobs={number}", "--format=%P").stdout.split()[:1]
        text = text.replace("{partition}", describe_partition(*name))
    return text and f"job {number} waits, {reason}: {text.replace('{id}', number)}"


def describe_partition(name: str = "") -> str:
    """Say which state a partition and its nodes are in."""
    result = run_command("sinfo", "--noheader", f"--partition={name}", "--format=%a|%D %T")
    rows = [line.strip().split("|") for line in result.stdout.splitlines() if "|" in line]
    if not rows:
        return f"partition {name} cannot be looked at"
    return f"partition {name} is {rows[0][0]}, its nodes: {', '.join(nodes for _, nodes in rows)}"


def list_advice(waiting: Iterable[tuple[str, str]]) -> list[str]:
    """List what keeps jobs from ever starting, each once, of pairs of a reason and a job."""
    lines = dict.fromkeys(explain_wait(reason, job) for reason, job in waiting)
    return list(filter(None, lines))


def warn_of_wait(reason: str, job: str) -> None:
    """Say of a job that is waited for why it will not start by itself, once for each array and reason."""
    line = explain_wait(reason, job)
    if line:
        _warn_once(line)


_warn_once = functools.cache(messages.warn)

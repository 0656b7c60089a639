"""What SLURM says of jobs: which live, and why one ended. Only its commands are called; nothing is submitted here."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import time
from dataclasses import dataclass, field

from compclip.base import child_environment, messages
from compclip.base.errors import one_line

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


@dataclass
class Queue:
    """The live jobs of this user, asked for at most every `max_age_s` seconds."""

    max_age_s: float = 2.0
    _asked_at: float = field(default=float("-inf"), init=False)
    _states: dict[str, tuple[str, str]] = field(default_factory=dict, init=False)
    _fault: str = field(default="", init=False)

    def state(self, job_id: str, submitted_at: float = 0.0) -> tuple[str, str] | None:
        """Return SLURM's state and reason of a job, by `id` or `array_index`; None for one that is not in the queue.

        An answer older than `sent`, the time of the job's submission, says nothing of it. Raises Unreachable.
        """
        if time.time() - self._asked_at > self.max_age_s or self._asked_at <= submitted_at:
            self._ask()
        if self._fault:
            raise Unreachable(self._fault)
        return self._states.get(job_id)

    def _ask(self) -> None:
        """Ask SLURM for the queue; print once that it does not answer, and once that it answers again."""
        asked_at, previous_fault, self._fault = time.time(), self._fault, ""
        try:
            self._states, self._asked_at = _list_queued(), asked_at
        except Unreachable as error:
            self._fault, self._asked_at = str(error), time.time()  # an answer that took long counts from its end
        if self._fault and not previous_fault:
            messages.warn(f"SLURM does not answer ({self._fault}); waiting")
        elif previous_fault and not self._fault:
            messages.note("SLURM answers again")


@functools.cache
def queue() -> Queue:
    """Return this process's view of the queue."""
    return Queue()


def _list_queued() -> dict[str, tuple[str, str]]:
    result = run_command("squeue", "--me", "--noheader", "--array", "--format=%i|%T|%r")
    if result.returncode:
        raise Unreachable(one_line(result.stderr))
    rows = (line.strip().split("|", 2) for line in result.stdout.splitlines() if line.count("|") >= 2)
    return {job: (state, reason) for job, state, reason in rows if state not in ENDED}


def explain_end(job_id: str, log: str = "") -> str:
    """Return why a job left the queue, by the cluster's accounts or, as long as it remembers, by its controller.

    A cluster that enforces memory without control groups accounts such an end as FAILED, and so is the end of a job
    that left in time but had no requeue left: only `log`, where SLURM and submitit write, tells them apart.
    """
    if STARVED.search(log):
        return REASONS["OUT_OF_MEMORY"]
    if OUT_OF_TURNS.search(log):
        return f"{REASONS['TIMEOUT']}, or requeues"
    result = run_command("sacct", "--noheader", "--parsable2", f"--jobs={job_id}", "--format=State,ExitCode,NodeList")
    rows = [line.split("|") for line in result.stdout.splitlines() if line.count("|") == 2]
    if result.returncode == 0 and rows:
        return _explain_states(rows)
    description = run_command("scontrol", "--oneliner", "show", "job", job_id).stdout
    fields = dict(re.findall(r"(\w+)=(\S+)", description))
    if "JobState" in fields:
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
        environment = child_environment.without_defaults(os.environ)
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: not installed on this machine")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: no answer in 60 s")

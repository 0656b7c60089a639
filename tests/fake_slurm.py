"""A SLURM that tests make up: what is recorded of its jobs, and what its commands answer."""

import functools
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from compclip.runs import cluster
from compclip.runs.cluster import QueuedJob

CLUSTER, NAME, SUBMITTED = "tiny", "compclip-0a1b2c3d", 1000
CONFIG = f"ClusterName             = {CLUSTER}\nMaxArraySize            = 1001\nPrivateData             = none\n"

READ_CONFIG = cluster.read_config.__wrapped__


def record(job_id: str, **more: Any) -> dict[str, Any]:
    identity = {"cluster": CLUSTER, "user": cluster.current_user(), "id": job_id, "name": NAME, "submitted": SUBMITTED}
    return {"kind": "slurm", **identity, "log": "", **more}


def row(job_id: str, state: str = "RUNNING", submitted: int = SUBMITTED, name: str = NAME) -> str:
    return f"{job_id}|{submitted}|{state}|None|{name}\n"


def queued(state: str) -> QueuedJob:
    """What the queue says of the job that was recorded."""
    return QueuedJob(NAME, SUBMITTED, state, "None")


def install(
    patch: pytest.MonkeyPatch,
    squeue: Callable[..., tuple[int, str, str]] | str = "",
    commands: list[tuple[str, ...]] | None = None,
    max_age_s: float = 2.0,
) -> None:
    """Have SLURM's commands answer: `squeue` is what it prints, or gets its words and returns code, output, errors.

    All but `scontrol show config` are noted in `commands`.
    """

    def run_command(*words: str) -> subprocess.CompletedProcess[str]:
        if words[:3] == ("scontrol", "show", "config"):
            return subprocess.CompletedProcess(words, 0, CONFIG, "")
        if commands is not None:
            commands.append(words)
        answer = (0, "", "") if words[0] != "squeue" else (0, squeue, "") if isinstance(squeue, str) else squeue(*words)
        return subprocess.CompletedProcess(words, *answer)

    patch.setattr(cluster, "run_command", run_command)
    patch.setattr(cluster, "read_config", functools.cache(READ_CONFIG))
    patch.setattr(cluster, "queue", functools.cache(functools.partial(cluster.Queue, max_age_s=max_age_s)))

"""slurm/*.yaml: where runs are sent and with which resources. Never part of a run's identity.

`setup` is shell commands that a job runs as its user: read another's profile before you use it. Nothing else of a
profile can become one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from compclip.base import yaml_text
from compclip.base.errors import UserError, unknown
from compclip.config.structured import mapping, structured
from compclip.runs import notify

EXECUTORS = ("local", "slurm")
OPTION = re.compile(r"[a-z][a-z0-9_-]*")


@dataclass(frozen=True)
class Profile:
    """One place to run; empty or 0 leaves a choice to the cluster."""

    executor: str = "slurm"  # or local: processes of this machine
    jobs: int = 1  # how many at a time: processes of this machine, or trials of a sweep
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    nodes: int = 1
    gpus: int = 0  # a node; one process each
    tasks_per_node: int = 0  # processes a node where there are no GPUs; 0: one a GPU, or one
    cpus: int = 0  # a process; 0: the run's threads and workers
    memory_gb: float = 0.0  # a node
    time_min: int = 60
    signal_s: int = 120  # warning before the time limit or a preemption, to save in
    requeues: int = 1000  # how often a run goes on after its time limit
    array_limit: int = 64  # jobs of an array at a time
    setup: list[str] = field(default_factory=list)  # shell lines before python, as `module load cuda`
    options: dict[str, str] = field(default_factory=dict)  # any other option of sbatch
    notify: str = ""  # the environment variable with the URL that is posted to, see compclip/runs/notify.py

    @property
    def tasks(self) -> int:
        """Processes of one run on each node."""
        return self.tasks_per_node or max(1, self.gpus)

    def of_shards(self, costly: bool) -> Profile:
        """What a task of shards asks for, one process: all of a node's share where it loads a model, else one core."""
        if costly:
            return replace(self, nodes=1, tasks_per_node=1, cpus=self.cpus * self.tasks)
        return replace(self, nodes=1, tasks_per_node=1, cpus=1, gpus=0, memory_gb=self.memory_gb / self.tasks)


POSITIVE = ("jobs", "nodes", "time_min", "signal_s", "array_limit")


def load(path: str | Path) -> Profile:
    """Read and check a profile. Raises UserError naming key, value and fix."""
    profile = structured(Profile, mapping(_read(path), str(path)), f"{path}: profile")
    _check(profile, path)
    return profile


def _read(path: str | Path) -> dict:
    if not os.path.exists(path):
        raise unknown("profile", str(path), [str(p) for p in sorted(Path(path).parent.glob("*.yaml"))])
    return yaml_text.plain(yaml_text.read(path, "must be a mapping, as `partition: gpu`"), str(path))


def _texts(profile: Profile) -> Iterator[tuple[str, str]]:
    """What stands behind an option in a job's script: a line break would end it there."""
    for name in ("partition", "account", "qos", "constraint"):
        yield name, getattr(profile, name)
    yield from ((f"options.{name}", value) for name, value in profile.options.items())


def _check(profile: Profile, path: str | Path) -> None:
    notify.check(profile.notify, f"{path}: notify")
    for name, value in _texts(profile):
        if not value.isprintable():
            raise UserError(f"{path}: {name}={value!a}: must be one line of plain text; a command belongs into setup")
    for name in profile.options:
        if not OPTION.fullmatch(name):
            raise UserError(f"{path}: options: {name!a}: is no option of sbatch; give its name, as mail-type")
    if profile.executor not in EXECUTORS:
        raise unknown("executor", profile.executor, EXECUTORS, f"{path}: executor")
    for name in POSITIVE:
        if getattr(profile, name) < 1:
            raise UserError(f"{path}: {name}={getattr(profile, name)}: must be >= 1")
    for name in ("gpus", "tasks_per_node", "cpus", "memory_gb", "requeues"):
        if getattr(profile, name) < 0:
            raise UserError(f"{path}: {name}={getattr(profile, name)}: must be >= 0")
    if profile.executor == "slurm" and profile.signal_s >= 60 * profile.time_min:
        raise UserError(f"{path}: signal_s={profile.signal_s}: must be shorter than time_min={profile.time_min}")
    if profile.gpus and profile.tasks_per_node not in (0, profile.gpus):
        raise UserError(
            f"{path}: tasks_per_node={profile.tasks_per_node}: one process a GPU, gpus={profile.gpus}; leave it out"
        )

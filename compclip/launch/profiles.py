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
from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from compclip.base import yaml_text
from compclip.base.errors import UserError, unknown
from compclip.config.validation import load_section, mapping
from compclip.runs import gpus, notify

PROFILES = Path("slurm")
VARIABLE = "COMPCLIP_ON"  # the profile of `compclip repro --on`, for the stages that send jobs of their own
OPTION = re.compile(r"[a-z][a-z0-9_-]*")
# options of srun that start programs; srun takes the beginning of a name for it
SRUN_PROGRAMS = ("bcast", "epilog", "export", "export-file", "multi-prog", "prolog", "task-epilog", "task-prolog")


@dataclass(frozen=True)
class Profile:
    """One place to run; empty or 0 leaves a choice to the cluster."""

    executor: Literal["local", "slurm"] = "slurm"  # or local: processes of this machine
    jobs: PositiveInt = 1  # how many at a time: processes of this machine, or trials of a sweep
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    nodes: PositiveInt = 1
    gpus: NonNegativeInt = 0  # a node; one process each
    tasks_per_node: NonNegativeInt = 0  # processes a node where there are no GPUs; 0: one a GPU, or one
    cpus: NonNegativeInt = 0  # a process; 0: the run's threads and workers
    memory_gb: NonNegativeFloat = 0.0  # a node
    time_min: PositiveInt = 60
    signal_s: PositiveInt = 120  # warning before the time limit or a preemption, to save in
    requeues: NonNegativeInt = 1000  # how often a run goes on after its time limit
    array_limit: PositiveInt = 64  # jobs of an array at a time
    queue_limit: NonNegativeInt = 0  # jobs in the user's queue at a time, others included; 0: the cluster's own limit
    setup: list[str] = field(default_factory=list)  # shell lines before python, as `module load cuda`
    options: dict[str, str] = field(default_factory=dict)  # any other option of sbatch
    srun: dict[str, str] = field(default_factory=dict)  # options of srun, which starts a run's processes; "": a flag
    notify: str = ""  # the environment variable with the URL that is posted to, see compclip/runs/notify.py

    @property
    def tasks(self) -> int:
        """Number of processes of one run on each node."""
        return self.tasks_per_node or max(1, self.gpus)

    @property
    def processes(self) -> int:
        """Number of processes of one run."""
        return 1 if self.executor == "local" else self.nodes * self.tasks

    def require_local_gpus(self) -> None:
        """Raise UserError where a profile of this machine asks for GPUs and CUDA counts fewer."""
        count = len(gpus.list_gpus()) if self.gpus else 0
        if count < self.gpus:
            raise UserError(
                f"gpus={self.gpus} of the profile: {count} on this machine: {gpus.describe_cuda()}; repair that, "
                "or set gpus: 0 to use the CPU"
            )

    def of_shards(self, costly: bool) -> Profile:
        """Return the profile of a task of shards: one process, with a node's whole share if `costly`, else one core."""
        if costly:
            return replace(self, nodes=1, tasks_per_node=1, cpus=self.cpus * self.tasks)
        return replace(self, nodes=1, tasks_per_node=1, cpus=1, gpus=0, memory_gb=self.memory_gb / self.tasks)


def load_profile(path: str | Path) -> Profile:
    """Read and check a profile. Raises UserError naming key, value and fix."""
    if not os.path.exists(path):
        folders = {PROFILES, Path(path).parent} - {Path()}  # a project's root holds other YAML files
        raise unknown("profile", str(path), [str(file) for folder in folders for file in folder.glob("*.yaml")])
    raw = yaml_text.to_plain(yaml_text.read_yaml(path, "must be a mapping, as `partition: gpu`"), str(path))
    profile = load_section(Profile, mapping(raw, str(path)), f"{path}: profile")
    notify.check_variable(profile.notify, f"{path}: notify")
    for fault in _list_faults(profile):
        raise UserError(f"{path}: {fault}")
    return profile


def _list_faults(profile: Profile) -> Iterator[str]:
    """Yield what a profile must not have, with the fix."""
    texts = {name: getattr(profile, name) for name in ("partition", "account", "qos", "constraint")}
    for section in ("options", "srun"):
        for name, value in getattr(profile, section).items():
            texts[f"{section}.{name}"] = value
    # they are behind an option in a job's script: a line break would end it there
    for name, value in texts.items():
        if not value.isprintable():
            yield f"{name}={value!a}: must be one line of plain text; a command belongs into setup"
    for name in profile.options:
        if not OPTION.fullmatch(name):
            yield f"options: {name!a}: is no option of sbatch; give its name, as mail-type"
    for name in profile.srun:
        if not OPTION.fullmatch(name):
            yield f"srun: {name!a}: is no option of srun; give its name, as cpu-bind"
        elif any(program.startswith(name) for program in SRUN_PROGRAMS):
            yield f"srun: {name!a}: starts a program or sets variables; use setup for that"
    if profile.executor == "slurm" and profile.signal_s >= 60 * profile.time_min:
        yield f"signal_s={profile.signal_s}: must be shorter than time_min={profile.time_min}"
    if profile.gpus and profile.tasks_per_node not in (0, profile.gpus):
        yield f"tasks_per_node={profile.tasks_per_node}: one process a GPU, gpus={profile.gpus}; leave it out"

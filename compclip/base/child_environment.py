"""The environment of what is started apart: that of the shell, without the place of an enclosing job in it.

A shell inside an allocation, a step of SLURM, MPI or torchrun holds the number, the memory, the cores and the rank of
that one. A process that took them for its own would be bound to other cores, or wait for processes that never come.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from compclip.base import environment_variables

PLACE = re.compile(
    r"(SLURMD?|SRUN|SALLOC|SUBMITIT|PMI\w*|MASTER|LOCAL|TORCHELASTIC)_\w+|((GROUP|ROLE)_)?(RANK|WORLD_SIZE)|ROLE_NAME"
)
# How SLURM's commands reach the cluster, and which signal submitit takes for its warning.
CONNECTION = {"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT", "SUBMITIT_PREEMPT_SIGNAL"}
# What a shell may set for SLURM's commands that ask: a filter hides jobs, a question waits for an answer.
QUESTIONS = ("SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_")


def without_place(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without an enclosing job's variables; those that a grid may read stay."""
    exempt = CONNECTION.union(environment_variables.list_allowed(environment))
    return {name: value for name, value in environment.items() if name in exempt or not PLACE.fullmatch(name)}


def without_defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which SLURM's commands answer what they are asked, in their own format, of all jobs."""
    return {name: value for name, value in without_place(environment).items() if not name.startswith(QUESTIONS)}

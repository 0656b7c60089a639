"""How many runs this machine takes side by side, and what each of them may use."""

from __future__ import annotations

import os
from pathlib import Path

GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
NO_GPU = ("", "-1", "NoDevFiles")  # the last is SLURM's
SLURM_COUNTS = ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE")
DEVICES = Path("/dev")


def slots(threads: int) -> list[dict[str, str]]:
    """The environment of each place for a run of so many threads: one for each GPU, else as many as the cores carry."""
    if ids := gpus():
        return [{GPU_VARIABLE: name} for name in ids]
    return [{}] * max(1, cores() // max(1, threads))


def slots_for(workers: int) -> list[dict[str, str]]:
    """The environment of each of so many places: several on a GPU where there are more places than GPUs."""
    ids = gpus()
    return [{GPU_VARIABLE: ids[place % len(ids)]} if ids else {} for place in range(workers)]


def gpus() -> list[str]:
    """The GPUs that this process may use; found without the time that a driver takes."""
    named = os.environ.get(GPU_VARIABLE)
    if named is not None:
        return [name for name in map(str.strip, named.split(",")) if name not in NO_GPU]
    return sorted((p.name.removeprefix("nvidia") for p in DEVICES.glob("nvidia[0-9]*")), key=int)


def why_gpu() -> str:
    """What says that this process is to compute on a GPU, as `NAME=VALUE asks for a GPU`; "" where nothing does."""
    ids = gpus()
    if os.environ.get(GPU_VARIABLE) is not None:
        return f"{GPU_VARIABLE}={','.join(ids)} asks for a GPU" if ids else ""
    for name in SLURM_COUNTS:
        if os.environ.get(name, "0") not in ("", "0"):
            return f"{name}={os.environ[name]} asks for a GPU"
    return f"{DEVICES}/nvidia{ids[0]} is there" if ids else ""


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))

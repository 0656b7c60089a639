"""How many runs this machine takes side by side, and what each of them may use."""

from __future__ import annotations

import os
from pathlib import Path

GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
NO_GPU = ("", "-1", "NoDevFiles")  # the last is SLURM's
SLURM_COUNTS = ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE")
DEVICES = Path("/dev")


def list_slots(threads: int) -> list[dict[str, str]]:
    """Return the environment of each slot for a run of so many threads: one a GPU, else as many as the cores carry."""
    if ids := list_gpus():
        return [{GPU_VARIABLE: name} for name in ids]
    return [{}] * max(1, count_cores() // max(1, threads))


def divide_gpus(workers: int) -> list[dict[str, str]]:
    """Return the environment of each worker; several share a GPU where there are more workers than GPUs."""
    ids = list_gpus()
    return [{GPU_VARIABLE: ids[worker % len(ids)]} if ids else {} for worker in range(workers)]


def list_gpus() -> list[str]:
    """Return the ids of the GPUs that this process may use, without starting a driver."""
    visible = os.environ.get(GPU_VARIABLE)
    if visible is not None:
        return [name for name in map(str.strip, visible.split(",")) if name not in NO_GPU]
    return sorted((p.name.removeprefix("nvidia") for p in DEVICES.glob("nvidia[0-9]*")), key=int)


def explain_gpu() -> str:
    """Return why this process is to compute on a GPU, as `NAME=VALUE asks for a GPU`; "" where nothing does."""
    ids = list_gpus()
    if os.environ.get(GPU_VARIABLE) is not None:
        return f"{GPU_VARIABLE}={','.join(ids)} asks for a GPU" if ids else ""
    for name in SLURM_COUNTS:
        if os.environ.get(name, "0") not in ("", "0"):
            return f"{name}={os.environ[name]} asks for a GPU"
    return f"{DEVICES}/nvidia{ids[0]} is there" if ids else ""


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))

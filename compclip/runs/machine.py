"""How many runs this machine takes side by side, and what each of them may use."""

from __future__ import annotations

import os
from pathlib import Path

GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"


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
        return [name.strip() for name in named.split(",") if name.strip() and name.strip() != "-1"]
    return sorted((p.name.removeprefix("nvidia") for p in Path("/dev").glob("nvidia[0-9]*")), key=int)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))

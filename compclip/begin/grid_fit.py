"""Fit a schedule to a data set and to this machine: batch, epochs, warm-up, precision, threads, micro-batch."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compclip.base.errors import UserError
from compclip.base.lazy_torch import torch
from compclip.config.grid import Run
from compclip.config.least_memory import GIB, least_bytes, machine_memory
from compclip.launch import cost_table
from compclip.launch.cost_table import Card, CostPredictor
from compclip.runs import gpus

LEAST_BATCH = 8
LEAST_TURNS = 4  # batches in an epoch
LEAST_STEPS = 100  # that a small data set is trained for, as far as MOST_EPOCHS go
MOST_EPOCHS = 10
MOST_SAMPLES = 1_000_000  # that are seen in training, unless one epoch has more
WARMUP_SHARE = 10  # of the steps at most one of so many
MOST_THREADS = 8
MOST_WORKERS = 12
TEXTS = 4  # of a picture: a rule's negatives come to its caption


@dataclass(frozen=True)
class Machine:
    """What trains here: GPUs, cores, and the memory in bytes of a GPU, or of a process where there is none."""

    gpus: int
    cores: int
    memory: int


def measure_machine(processes: int) -> Machine:
    """Return this machine; without a GPU as many as `processes` runs share its memory, a core each."""
    cores = len(os.sched_getaffinity(0))
    count = len(gpus.list_gpus())
    if count:
        return Machine(count, cores, torch.cuda.get_device_properties(0).total_memory)
    return Machine(0, cores, machine_memory() // max(1, min(cores, processes)))


def fit_schedule(train: Mapping[str, Any], pictures: int, machine: Machine) -> dict[str, Any]:
    """Return the section `train` for so many pictures on a machine; what does not depend on them stays."""
    fitted = dict(train)
    batch = fitted["batch_size"] = _fit_batch(train.get("batch_size", 256), pictures)
    turns = max(1, pictures // batch)
    fitted["epochs"] = _fit_epochs(train.get("epochs", 5), pictures, turns)
    steps = train.get("max_steps") or round(turns * fitted["epochs"])
    fitted["warmup_steps"] = min(train.get("warmup_steps", 0), steps // WARMUP_SHARE)
    fitted["log_every_steps"] = max(1, min(train.get("log_every_steps", 10), steps // 20))
    if machine.gpus:
        cores = max(1, machine.cores // machine.gpus)
        return {**fitted, "threads": min(MOST_THREADS, cores), "workers": min(MOST_WORKERS, cores)}
    fitted.pop("workers", None)
    return {**fitted, "precision": "float32", "threads": 1}


def _fit_batch(batch: int, pictures: int) -> int:
    while batch > LEAST_BATCH and pictures < LEAST_TURNS * batch:
        batch //= 2
    return batch


def _fit_epochs(epochs: float, pictures: int, turns: int) -> float:
    if turns * epochs < LEAST_STEPS:
        return max(epochs, min(MOST_EPOCHS, math.ceil(LEAST_STEPS / turns)))
    return min(epochs, max(1, round(MOST_SAMPLES / pictures, 1)))


def find_micro_batch(runs: Sequence[Run], machine: Machine) -> int:
    """Return the `micro_batch` by which the largest step fits this machine, 0 where the whole batch does.

    A step is simulated, as `compclip config cost` does, only where a bound by weights and activations comes near. Where
    it cannot be, as for a model that only its hub knows, nothing is changed.
    """
    largest = max((run for group in cost_table.group_runs(runs) for run in group[:1]), key=least_bytes, default=None)
    if largest is None or TEXTS * least_bytes(largest) < machine.memory:
        return 0
    predictor = CostPredictor(Card("this machine", machine.memory / GIB, 1.0, 1.0, 1.0, 1.0))
    smallest = 0
    for group in cost_table.group_runs(runs):
        try:
            cost = predictor.predict(group[0])
        except UserError:
            continue
        if not cost.fits:
            smallest = min(smallest or group[0].train.batch_size, cost.micro_batch or 1)
    return smallest

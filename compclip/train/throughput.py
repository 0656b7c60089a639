"""How well a run uses its machine: how long it waits for data, and what holds it back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from compclip.base import messages, worker_processes
from compclip.runs import gpus
from compclip.train import loader
from compclip.train.fitting_batch import GIB

if TYPE_CHECKING:
    from compclip.config.sections import Train

SIDES = {"cpu": 512, "cuda": 8192}  # of the square matrices that the rate is measured with
REPEATS = 5
ENOUGH_S = 0.1  # of time behind the first repeat: a CPU without units for bfloat16 takes seconds for one


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Return floating-point operations a second of a large matrix product, the best of a few."""
    side = SIDES.get(device.type, SIDES["cpu"])
    a = torch.ones(side, side, device=device, dtype=dtype)
    seconds: list[float] = []
    while len(seconds) < REPEATS and sum(seconds[1:]) < ENOUGH_S:
        seconds.append(_time_call(lambda: a @ a, device))
    return 2 * side**3 / min(seconds)


def _time_call(work: Callable[[], object], device: torch.device) -> float:
    started = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


class Meter:
    """Measures how long a process waits for data while it trains."""

    def __init__(self) -> None:
        self._waited = 0.0
        self._started = self._wait_started = self._span_started = time.perf_counter()
        self._waited_before_span = 0.0

    def begin_wait(self) -> None:
        """Begin to measure the wait for a batch."""
        self._wait_started = time.perf_counter()

    def end_wait(self) -> None:
        """Count the time since `begin_wait` as waiting for data."""
        self._waited += time.perf_counter() - self._wait_started

    def share(self) -> float:
        """Return the share of the time that waited for data."""
        return round(self._waited / (time.perf_counter() - self._started), 4)

    def span_wait(self) -> float:
        """Return the share of the time since the last call that waited for data."""
        now = time.perf_counter()
        waited = self._waited - self._waited_before_span
        share = waited / (now - self._span_started)
        self._span_started = now
        self._waited_before_span = self._waited
        return share


# What a run says once of the resources that hold it back, on stderr, with the options that help.

WAIT_SHARE = 0.1  # of the time since the last logged step
MEMORY_SHARE = 0.9  # of a GPU's memory


class Adviser:
    """Looks at a run's resources when it logs, and says each piece of advice once."""

    def __init__(self, cfg: Train, device: torch.device) -> None:
        self.cfg = cfg
        self.device = device
        self._spans = 0
        self._said: set[str] = set()

    def look(self, wait_share: float) -> None:
        """Look at the share of the last span that waited for data, and at the GPU's memory.

        The first span, in which workers start and files are read for the first time, is not judged.
        """
        self._spans += 1
        if wait_share > WAIT_SHARE and self._spans > 1:
            faster = "" if self.cfg.resize == "torch" else " or train.resize: torch"
            advice = f"more train.workers (workers={self.cfg.workers or 0})"
            if self.cfg.workers is None and self.device.type != "cpu":
                advice = "the job more cores (train.workers follows them unless it is set)"
            self._say_once("data_wait", f"{wait_share:.0%} of the time went by without data; give {advice}{faster}")
        reserved, total = read_memory(self.device)
        if total and reserved > MEMORY_SHARE * total:
            cheaper = "" if self.cfg.checkpoint_activations else " or set train.checkpoint_activations: true"
            self._say_once(
                "memory", f"{reserved / GIB:.1f} of the GPU's {total / GIB:.1f} GiB are taken, and a step with longer "
                f"texts may not fit; lower train.micro_batch (micro_batch={self.cfg.micro_batch}){cheaper}"
            )  # fmt: skip

    def _say_once(self, name: str, line: str) -> None:
        if name not in self._said:
            self._said.add(name)
            messages.note(f"{name}: {line}")


def read_memory(device: torch.device) -> tuple[int, int]:
    """Return the bytes of a GPU that torch's allocator had at most, and all of it; zeros of a CPU."""
    if device.type != "cuda":
        return 0, 0
    return torch.cuda.max_memory_reserved(device), torch.cuda.get_device_properties(device).total_memory


def count_workers(configured: int | None, device: str, batch_bytes: int) -> int:
    """Return how many processes make batches ahead: as configured, else on a GPU a core each; on a CPU none.

    One core is left to the process that trains. There are fewer where their batches would take more than half of the
    memory that processes share; a system without such a folder has no such bound. A process of several on its machine
    has its share of the cores.
    """
    if configured is not None or device == "cpu":
        return configured or 0
    env = os.environ
    cores = len(os.sched_getaffinity(0)) // int(env.get("LOCAL_WORLD_SIZE", 1))  # torchrun's, whose processes share
    cores = min(int(env.get(name, cores)) for name in ("SLURM_CPUS_PER_TASK", gpus.CORES))
    free = worker_processes.measure_free()
    fitting = cores if free is None else free // 2 // (loader.AHEAD * batch_bytes)
    return max(1, min(cores - 1, fitting))

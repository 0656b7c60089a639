"""How well a run uses its machine: how long it waits for data, and what holds it back."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from compclip.base import messages, worker_processes
from compclip.config.grid import Run
from compclip.interface.features import Features, Kind, change_rows
from compclip.interface.method import Method, load_method
from compclip.interface.views import Step
from compclip.runs import gpus
from compclip.train import loader

if TYPE_CHECKING:
    from torch import Tensor

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
    cores = min(int(env.get("SLURM_CPUS_PER_TASK", cores)), int(env.get(gpus.CORES, cores)))
    free = worker_processes.measure_free()
    fitting = cores if free is None else free // 2 // (loader.AHEAD * batch_bytes)
    return max(1, min(cores - 1, fitting))


# --- the largest batch that fits ------------------------------------------------------------------------------------
# The largest `train.micro_batch` whose step fits a card, by the peak of a step, and what a full GPU is told.


GIB = 2**30
ALLOCATOR_SHARE = 0.05  # of a card's memory: what torch's allocator holds and cannot give, being in pieces
CONTEXT_GIB = 0.5  # of CUDA's context and the libraries' kernels
LONGEST_TURN = 4  # steps that a method may take in turn


def count_usable_bytes(total_bytes: int) -> int:
    """Return the memory of a card that a step's tensors may take."""
    return int((1 - ALLOCATOR_SHARE) * total_bytes - CONTEXT_GIB * GIB)


def count_rows(run: Run, processes: int) -> int:
    """Return the pictures of a process's share of a batch, neighbours of its samples too."""
    share = run.train.batch_size // processes
    return share * (1 + load_method(run.method_name).views(run.method, 0).neighbours)


def find_micro_batch(peak: Callable[[int], int], size: int, below: int, usable: int) -> int:
    """Return the largest `micro_batch` under `below` whose `peak`, in bytes, is `usable` at most; 0: there is none.

    Powers of two and divisors of `size`, the rows of a batch, are tried. The peak is convex in it, so that no
    larger one fits than a line through two peaks above says.
    """
    largest = min(size // 2, below - 1)
    candidates = [n for n in range(1, largest + 1) if size % n == 0 or n & (n - 1) == 0]
    peaks: list[tuple[int, int]] = []
    while candidates:
        micro_batch = candidates.pop()
        peaks.append((micro_batch, peak(micro_batch)))
        if peaks[-1][1] <= usable:
            return micro_batch
        limit = _solve_line(peaks[-2], peaks[-1], usable) if len(peaks) > 1 else micro_batch
        candidates = [n for n in candidates if n <= limit]
    return 0


def _solve_line(right: tuple[int, int], left: tuple[int, int], height: int) -> float:
    """Return where the line through two points has a height; 0 where it does not rise."""
    slope = (right[1] - left[1]) / (right[0] - left[0])
    return left[0] - (left[1] - height) / slope if slope > 0 else 0.0


def count_turns(method: Method, cfg: Any) -> int:
    """Return after how many steps a method's views come again: 2 where composites and single pictures take turns."""
    kinds = [method.views(cfg, Step(number, 2 * LONGEST_TURN)).work_kind() for number in range(2 * LONGEST_TURN)]
    for turns in range(1, LONGEST_TURN):
        if kinds[turns:] == kinds[:-turns]:
            return turns
    return LONGEST_TURN


def gather_rows(method: Method, processes: int) -> Method:
    """Return a method whose loss sees the rows of all processes, as training gathers them."""
    if processes == 1:
        return method

    def loss(f: Features, cfg: Any, step: int) -> Any:
        return method.loss(_widen(f, processes), cfg, step)

    gathering = copy.copy(method)
    vars(gathering)["loss"] = loss
    return gathering


def _widen(f: Features, processes: int) -> Features:
    """Return features with the rows of other processes, which have no slope, behind a process's own.

    Patches and tokens too, so that for methods with `own_tokens` a loss's cost is an upper bound.
    """

    def widen(_name: str, value: Tensor, _kind: Kind) -> Tensor:
        return torch.cat([value, value.new_zeros((processes - 1) * len(value), *value.shape[1:])])

    return replace(change_rows(f, widen), teacher=f.teacher and _widen(f.teacher, processes))


def describe_out_of_memory(run: Run, processes: int, total_bytes: int, error: torch.OutOfMemoryError) -> str:
    """Return the line for a GPU that is out of memory, with half of the current `micro_batch`."""
    micro_batch = (run.train.micro_batch or count_rows(run, processes)) // 2
    advice = f"set train.micro_batch: {micro_batch} (`compclip config cost` says the largest that fits a card)"
    alternative = "" if run.train.checkpoint_activations else " or train.checkpoint_activations: true"
    reason = str(error).partition(". ")[0]
    return (
        f"out of memory of the GPU, {total_bytes / GIB:.1f} GiB, at train.micro_batch={run.train.micro_batch} of "
        f"train.batch_size={run.train.batch_size}: {advice}{alternative}, or lower train.batch_size ({reason})"
    )

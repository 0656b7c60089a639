"""The largest `train.micro_batch` whose step fits a card, by the peak of a step, and what a full GPU is told."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from compclip.config.grid import Run
from compclip.interface.features import Features, Kind, change_rows
from compclip.interface.method import Method, load_method
from compclip.interface.views import Step

if TYPE_CHECKING:
    import torch
    from torch import Tensor

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
    candidates = sorted({n for n in range(1, size // 2 + 1) if n < below and (size % n == 0 or n & (n - 1) == 0)})
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
    turns = range(1, LONGEST_TURN + 1)
    return next((t for t in turns if all(kinds[i] == kinds[i % t] for i in range(len(kinds)))), LONGEST_TURN)


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
    import torch

    def widen(_name: str, value: Tensor, _kind: Kind) -> Tensor:
        return torch.cat([value, *(torch.zeros_like(value) for _ in range(processes - 1))])

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

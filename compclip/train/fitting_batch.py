"""The largest `train.micro_batch` whose step fits a card, by the step's own operators on tensors without contents.

A run that is out of memory asks for it in a process of its own, since the simulated device is there for good once it is
(`python -m compclip.train.fitting_batch`, the question as JSON on its input).
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from compclip.base import environment_variables
from compclip.base.errors import entry
from compclip.config.grid import Run, parse_run
from compclip.interface.features import Features, Kind, change_rows
from compclip.interface.method import Method, load_method
from compclip.interface.views import Step
from compclip.runs import gpus

if TYPE_CHECKING:
    import torch
    from torch import Tensor

GIB = 2**30
ALLOCATOR_SHARE = 0.05  # of a card's memory: what torch's allocator holds and cannot give, being in pieces
CONTEXT_GIB = 0.5  # of CUDA's context and the libraries' kernels
LONGEST_TURN = 4  # steps that a method may take in turn
PATIENCE_S = 180.0  # for the simulated steps of a run that is out of memory


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


def simulate_fitting(run: Run, model_cfg: Mapping[str, Any], processes: int, total_bytes: int) -> int:
    """Return the largest `micro_batch` below the run's own that fits a card; 0: none does. Takes CPU seconds."""
    from compclip.train.simulated_step import simulate_step

    method = gather_rows(load_method(run.method_name), processes)
    share = run.train.batch_size // processes

    def peak(micro_batch: int) -> int:
        train = replace(run.train, batch_size=share, micro_batch=micro_batch)
        return simulate_step(replace(run, train=train), method, model_cfg, count_turns(method, run.method)).peak_bytes

    rows = count_rows(run, processes)
    return find_micro_batch(peak, rows, run.train.micro_batch or rows, count_usable_bytes(total_bytes))


def describe_out_of_memory(
    run: Run, model_cfg: Mapping[str, Any] | None, processes: int, total_bytes: int, error: torch.OutOfMemoryError
) -> str:
    """Return the line for a GPU that is out of memory, with the `micro_batch` that would fit.

    Half of the current one where that cannot be computed: without a model yet, or in PATIENCE_S.
    """
    current = run.train.micro_batch or count_rows(run, processes)
    fitting = ask_fitting(run, model_cfg, processes, total_bytes) if model_cfg and total_bytes else None
    by = "half of it, not computed" if fitting is None else "the largest that fits by a simulated step"
    micro_batch = current // 2 if fitting is None else fitting
    advice = f"set train.micro_batch: {micro_batch} ({by})" if micro_batch else "no train.micro_batch fits"
    alternative = "" if run.train.checkpoint_activations else " or train.checkpoint_activations: true"
    reason = str(error).partition(". ")[0]
    return (
        f"out of memory of the GPU, {total_bytes / GIB:.1f} GiB, at train.micro_batch={run.train.micro_batch} of "
        f"train.batch_size={run.train.batch_size}: {advice}{alternative}, or lower train.batch_size ({reason})"
    )


def ask_fitting(run: Run, model_cfg: Mapping[str, Any], processes: int, total_bytes: int) -> int | None:
    """Return `simulate_fitting` of a process of its own; None where it fails or takes too long."""
    question = {"run": run.plain, "model_cfg": model_cfg, "processes": processes, "total_bytes": total_bytes}
    environment = environment_variables.without_place(os.environ)
    environment[gpus.VISIBLE] = ""  # it computes nothing, and the GPU is full
    try:
        answer = subprocess.run([sys.executable, "-m", __spec__.name], input=json.dumps(question), env=environment,
                                capture_output=True, text=True, timeout=PATIENCE_S, check=True)  # fmt: skip
        return int(answer.stdout.split()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, LookupError):
        return None


def main(argv: list[str]) -> int:
    """Print the answer to the question on the input."""
    question = json.loads(sys.stdin.read())
    run = parse_run(question.pop("run"), "run")
    print(simulate_fitting(run, **question))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

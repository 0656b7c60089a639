"""What runs will cost, from finished runs of the same method and backbone, with the same batch size and precision.

A run costs its steps, and what every run costs: start, checkpoints, scoring. Both are taken from finished runs' own
files, and the median counts. Runs on GPUs say nothing of runs on CPUs. Nothing is estimated where no such run is there.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.messages import format_count
from compclip.runs import progress, result_files, run_store, run_table
from compclip.runs import run_folder as folders
from compclip.runs.run_folder import Trained
from compclip.runs.run_store import StoredRun

NEWEST = 5  # finished runs of a method and a backbone that are read
ALIKE = ("batch_size", "precision", "micro_batch", "trainable")  # of a schedule: what a step costs depends on them


@dataclass(frozen=True)
class FinishedCost:
    """What a finished run cost; a method that trains nothing has no steps."""

    config: Mapping[str, Any]
    on_gpu: bool
    steps: int
    steps_an_epoch: float
    step_s: float  # device-seconds
    fixed_s: float  # device-seconds


def measure_cost(
    config: Mapping[str, Any], facts: Mapping[str, Any], last: Mapping[str, Any] | None, spent: float
) -> FinishedCost:
    """Measure a finished run's cost from its parameters, environment.json, last logged step and device-seconds."""
    devices = facts.get("processes", 1)
    spent = spent or facts.get("device_seconds") or facts.get("seconds", 0.0) * devices
    on_gpu = "peak_device_memory_mib" in facts
    if last is None:
        return FinishedCost(config, on_gpu, 0, 0.0, 0.0, spent)
    step_s = config["train"]["batch_size"] * devices / last["samples_per_second"]
    fixed = max(0.0, spent - step_s * last["step"])
    return FinishedCost(config, on_gpu, last["step"], last["step"] / last["epoch"], step_s, fixed)


def estimate_cost(
    run: Mapping[str, Any], finished_steps: int, finished: Iterable[FinishedCost], on_gpu: bool
) -> float | None:
    """Estimate the device-seconds that a run needs after `finished_steps`; None where no finished run tells."""
    alike = _select_closest(run, [cost for cost in finished if cost.on_gpu == on_gpu and _is_comparable(run, cost)])
    steps_left = [(cost, max(0, n - finished_steps)) for cost in alike if (n := _steps(run, cost)) is not None]
    estimates = [cost.fixed_s + steps * cost.step_s for cost, steps in steps_left]
    return statistics.median(estimates) if estimates else None


def _is_comparable(run: Mapping[str, Any], cost: FinishedCost) -> bool:
    cell = run["cell"]
    finished_cell = cost.config["cell"]
    same_method = _base_method(cell["method"]) == _base_method(finished_cell["method"])
    same_model = same_method and cell["backbone"] == finished_cell["backbone"]
    return same_model and all(run["train"][name] == cost.config["train"].get(name) for name in ALIKE)


def _select_closest(run: Mapping[str, Any], alike: list[FinishedCost]) -> list[FinishedCost]:
    """Select the runs of the same variant and data, else of the same data, else of the same variant, else all."""
    variant = [cost for cost in alike if cost.config["cell"]["method"] == run["cell"]["method"]]
    data = [cost for cost in alike if cost.config["cell"]["data"] == run["cell"]["data"]]
    return [cost for cost in variant if cost in data] or data or variant or alike


def _steps(run: Mapping[str, Any], cost: FinishedCost) -> int | None:
    """Return a run's number of steps; where it is given in epochs, only a run on the same data tells."""
    train = run["train"]
    if not cost.steps or train["max_steps"]:
        return train["max_steps"] if cost.steps else 0
    if run["cell"]["data"] != cost.config["cell"]["data"]:
        return None
    return max(1, round(train["epochs"] * round(cost.steps_an_epoch)))


def _base_method(method: str) -> str:
    return method.partition(".")[0]


def format_costs(
    runs: Sequence[tuple[str, Mapping[str, Any], int]], finished: Sequence[FinishedCost], on_gpu: bool
) -> list[str]:
    """Return a line a run, their sum, and what cannot be estimated; `runs` are names, parameters and finished steps."""
    costs = [estimate_cost(run, finished_steps, finished, on_gpu) for _, run, finished_steps in runs]
    hours = "GPU-hours" if on_gpu else "process-hours"
    lines = [f"{name}: {_format_hours(s, hours)}" for (name, *_), s in zip(runs, costs, strict=True)]
    estimated = [s for s in costs if s is not None]
    lines += (
        [f"about {_format_hours(sum(estimated), hours)} for {len(estimated)} of {len(runs)} runs"] if estimated else []
    )
    pairs = ((run["cell"]["method"], run["cell"]["backbone"]) for _, run, _ in runs)
    unestimated = Counter(pair for pair, s in zip(pairs, costs, strict=True) if s is None)
    where = "on GPUs" if on_gpu else "on CPUs"
    return lines + [
        f"no estimate for {format_count(count, 'run')}: no finished run of {method} on {backbone} ({where}, with this "
        "batch size and precision and these trained parts)"
        for (method, backbone), count in unestimated.items()
    ]


def _format_hours(seconds: float | None, unit: str) -> str:
    return "unknown" if seconds is None else f"{seconds / 3600:.2f} {unit}"


def list_unfinished(todo: Iterable[StoredRun]) -> list[tuple[str, Mapping[str, Any], int]]:
    """List runs as `format_costs` takes them."""
    runs = []
    for run in todo:
        log = run.folder.progress
        last = progress.read_progress(log, run.resolved["train"]) if log else None
        runs.append((f"{run.key}  {run.cell.name}", run.resolved, last.step if last else 0))
    return runs


def read_finished(todo: Iterable[StoredRun], root: Path) -> list[FinishedCost]:
    """Read the newest finished runs of the methods and backbones of `todo`, in the store and published."""
    pairs = {(_base_method(s.cell.method), s.cell.backbone) for s in todo}
    runs_by_pair: dict[tuple[str, str], dict[str, tuple[float, Trained, float]]] = defaultdict(dict)
    for trained, spent in _list_finished(root):
        with contextlib.suppress(UserError):  # one that cannot be read tells nothing
            cell = run_table.read_cell(trained.config)
            pair = _base_method(str(cell.get("method"))), str(cell.get("backbone"))
            if pair in pairs:
                when = trained.environment.stat().st_mtime
                runs_by_pair[pair].setdefault(trained.run_key or str(trained.path), (when, trained, spent))
    newest = (sorted(runs.values(), key=lambda run: -run[0])[:NEWEST] for runs in runs_by_pair.values())
    return [cost for runs in newest for _, trained, spent in runs if (cost := _read_cost(trained, spent))]


def _list_finished(root: Path) -> Iterable[tuple[Trained, float]]:
    for folder in run_store.list_folders(root):
        with contextlib.suppress(UserError):  # one with a link or a pipe is not read
            folder.check()
            if folder.finished:
                yield folder.final, progress.read_device_seconds(folder)
    for path in folders.published_folders(root / folders.RUNS):
        if Trained(path).environment.is_file():
            yield Trained(path), 0.0


def _read_cost(trained: Trained, spent: float) -> FinishedCost | None:
    """Read the cost of one run; None where its files are of another version, or damaged."""
    try:
        last = progress.last_row(trained.metrics)
        return measure_cost(result_files.read_config(trained), trained.facts(), last, spent)
    except (UserError, KeyError, TypeError, ArithmeticError):
        return None

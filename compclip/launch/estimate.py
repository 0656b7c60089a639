"""What runs will cost, from finished runs of the same method, backbone and data, with the same batch and precision.

A run costs its steps, and what every run costs: start, checkpoints, scoring. Both are taken from finished runs' own
files, and the median counts. Runs on GPUs say nothing of runs on CPUs. Nothing is estimated where no such run is there.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.messages import format_count
from compclip.runs import progress, result_files, run_store, run_table
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
    on_gpu = progress.is_on_gpu(facts)
    if last is None:
        return FinishedCost(config, on_gpu, 0, 0.0, 0.0, spent)
    step_s = config["train"]["batch_size"] * facts.get("processes", 1) / last["samples_per_second"]
    fixed = max(0.0, spent - step_s * last["step"])
    return FinishedCost(config, on_gpu, last["step"], last["step"] / last["epoch"], step_s, fixed)


def estimate_cost(
    run: Mapping[str, Any], finished_steps: int, finished: Iterable[FinishedCost], on_gpu: bool
) -> float | None:
    """Estimate the device-seconds that a run needs after `finished_steps`; None where no finished run tells."""
    estimates = []
    for cost in finished:
        if cost.on_gpu == on_gpu and _is_comparable(run, cost.config):
            steps = run["train"]["max_steps"] or max(1, round(run["train"]["epochs"] * round(cost.steps_an_epoch)))
            steps_left = max(0, steps - finished_steps) if cost.steps else 0
            estimates.append(cost.fixed_s + steps_left * cost.step_s)
    return statistics.median(estimates) if estimates else None


def _is_comparable(run: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    cell = run["cell"]
    if (*_name_model(cell), cell["data"]) != (*_name_model(config["cell"]), config["cell"]["data"]):
        return False
    return all(run["train"][name] == config["train"].get(name) for name in ALIKE)


def _name_model(cell: Mapping[str, Any]) -> tuple[str, str]:
    """Return the method, whatever its variant, and the backbone."""
    return str(cell.get("method")).partition(".")[0], str(cell.get("backbone"))


def format_costs(
    runs: Sequence[tuple[str, Mapping[str, Any], int]], finished: Sequence[FinishedCost], on_gpu: bool
) -> list[str]:
    """Return a line a run, their sum, and what cannot be estimated; `runs` are names, parameters and finished steps."""
    unit = progress.GPU_HOURS if on_gpu else progress.PROCESS_HOURS
    lines = []
    estimated = []
    unknown: dict[str, None] = {}
    for name, run, finished_steps in runs:
        seconds = estimate_cost(run, finished_steps, finished, on_gpu)
        lines.append(f"{name}: {'unknown' if seconds is None else f'{seconds / 3600:.2f} {unit}'}")
        if seconds is None:
            unknown[f"{run['cell']['method']} on {run['cell']['backbone']}"] = None
        else:
            estimated.append(seconds)
    if estimated:
        lines.append(f"about {sum(estimated) / 3600:.2f} {unit} for {len(estimated)} of {len(runs)} runs")
    if unknown:
        where = "on GPUs" if on_gpu else "on CPUs"
        lines.append(
            f"no estimate for {format_count(len(runs) - len(estimated), 'run')}: no finished run of "
            f"{', '.join(unknown)} ({where}, with this data, batch size and precision and these trained parts)"
        )
    return lines


def list_unfinished(todo: Iterable[StoredRun]) -> list[tuple[str, Mapping[str, Any], int]]:
    """List runs as `format_costs` takes them."""
    runs = []
    for run in todo:
        log = run.folder.progress
        last = progress.read_progress(log, run.resolved["train"]) if log else None
        runs.append((f"{run.key}  {run.cell.name}", run.resolved, last.step if last else 0))
    return runs


def read_finished(todo: Iterable[StoredRun], root: Path) -> list[FinishedCost]:
    """Read the newest finished runs of the store that have the methods and backbones of `todo`."""
    counts = {_name_model(run.cell.plain): 0 for run in todo}
    costs = []
    for folder in sorted(run_store.list_folders(root), key=lambda folder: -folder.path.lstat().st_mtime):
        with contextlib.suppress(UserError, LookupError, TypeError, ArithmeticError):  # a damaged one tells nothing
            folder.check()
            final = folder.final
            model = _name_model(run_table.read_cell(final.config) if folder.finished else {})
            if counts.get(model, NEWEST) < NEWEST:
                spent = progress.read_device_seconds(folder)
                last = progress.last_row(final.metrics)
                costs.append(measure_cost(result_files.read_config(final), final.facts(), last, spent))
                counts[model] += 1
    return costs

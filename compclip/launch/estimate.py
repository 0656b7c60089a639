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
from compclip.runs import folder as folders
from compclip.runs import inventory, lives, progress, results, store
from compclip.runs.folder import Folder, Trained
from compclip.runs.store import StoredRun

NEWEST = 5  # finished runs of a method and a backbone that are read
ALIKE = ("batch_size", "precision", "micro_batch", "trainable")  # of a schedule: what a step costs depends on them


@dataclass(frozen=True)
class Finished:
    """What a finished run cost; a method that trains nothing has no steps."""

    config: Mapping[str, Any]
    on_gpu: bool
    steps: int
    steps_an_epoch: float
    step_s: float  # device-seconds
    fixed_s: float  # device-seconds


def measured(
    config: Mapping[str, Any], facts: Mapping[str, Any], last: Mapping[str, Any] | None, spent: float
) -> Finished:
    """From a run's parameters, its environment.json, its last logged step, and its device-seconds."""
    devices = facts.get("processes", 1)
    spent = spent or facts.get("device_seconds") or facts.get("seconds", 0.0) * devices
    on_gpu = "peak_device_memory_mib" in facts
    if last is None:
        return Finished(config, on_gpu, 0, 0.0, 0.0, spent)
    step_s = config["train"]["batch_size"] * devices / last["samples_per_second"]
    fixed = max(0.0, spent - step_s * last["step"])
    return Finished(config, on_gpu, last["step"], last["step"] / last["epoch"], step_s, fixed)


def cost(run: Mapping[str, Any], done: int, finished: Iterable[Finished], on_gpu: bool) -> float | None:
    """Device-seconds of what is left of a run after `done` steps; None where no finished run tells."""
    alike = _closest(run, [one for one in finished if one.on_gpu == on_gpu and _alike(run, one)])
    found = [
        one.fixed_s + max(0, steps - done) * one.step_s for one in alike if (steps := _steps(run, one)) is not None
    ]
    return statistics.median(found) if found else None


def _alike(run: Mapping[str, Any], one: Finished) -> bool:
    cell, other = run["cell"], one.config["cell"]
    same = _base(cell["method"]) == _base(other["method"]) and cell["backbone"] == other["backbone"]
    return same and all(run["train"][name] == one.config["train"].get(name) for name in ALIKE)


def _closest(run: Mapping[str, Any], alike: list[Finished]) -> list[Finished]:
    """Those of the same variant and data, of the same data, of the same variant, or all, whatever there is first."""
    variant = [one for one in alike if one.config["cell"]["method"] == run["cell"]["method"]]
    data = [one for one in alike if one.config["cell"]["data"] == run["cell"]["data"]]
    return [one for one in variant if one in data] or data or variant or alike


def _steps(run: Mapping[str, Any], one: Finished) -> int | None:
    """How long a run is; by epochs only a run on the same data tells."""
    train = run["train"]
    if not one.steps or train["max_steps"]:
        return train["max_steps"] if one.steps else 0
    if run["cell"]["data"] != one.config["cell"]["data"]:
        return None
    return max(1, round(train["epochs"] * round(one.steps_an_epoch)))


def _base(method: str) -> str:
    return method.partition(".")[0]


def report(runs: Sequence[tuple[str, Mapping[str, Any], int]], finished: Sequence[Finished], on_gpu: bool) -> list[str]:
    """A line a run (its name, parameters and finished steps given), their sum, and what cannot be estimated."""
    costs = [cost(run, done, finished, on_gpu) for _, run, done in runs]
    hours = "GPU-hours" if on_gpu else "process-hours"
    lines = [f"{name}: {_hours(s, hours)}" for (name, *_), s in zip(runs, costs, strict=True)]
    known = [s for s in costs if s is not None]
    lines += [f"about {_hours(sum(known), hours)} for {len(known)} of {len(runs)} runs"] if known else []
    pairs = ((run["cell"]["method"], run["cell"]["backbone"]) for _, run, _ in runs)
    lacking = Counter(pair for pair, s in zip(pairs, costs, strict=True) if s is None)
    where = "on GPUs" if on_gpu else "on CPUs"
    return lines + [
        f"no estimate for {count} runs: no finished run of {method} on {backbone} ({where}, with this batch size and "
        "precision and these trained parts)"
        for (method, backbone), count in lacking.items()
    ]


def _hours(seconds: float | None, unit: str) -> str:
    return "unknown" if seconds is None else f"{seconds / 3600:.2f} {unit}"


def asked(todo: Iterable[StoredRun]) -> list[tuple[str, Mapping[str, Any], int]]:
    """Runs to be sent as `report` takes them."""
    return [(f"{s.key}  {s.cell.name}", s.resolved, _done(s)) for s in todo]


def _done(stored: StoredRun) -> int:
    log = stored.folder.progress
    last = progress.progress(log, stored.resolved["train"]) if log else None
    return last.step if last else 0


def finished(todo: Iterable[StoredRun], root: Path) -> list[Finished]:
    """The newest finished runs of the methods and backbones of `todo`, in the store and published."""
    wanted = {(_base(s.cell.method), s.cell.backbone) for s in todo}
    found: dict[tuple[str, str], dict[str, tuple[float, Trained, float]]] = defaultdict(dict)
    for trained, spent in _everywhere(root):
        with contextlib.suppress(UserError):  # one that cannot be read tells nothing
            pair = _pair(trained)
            if pair in wanted:
                when = trained.environment.stat().st_mtime
                found[pair].setdefault(trained.run_key or str(trained.path), (when, trained, spent))
    newest = (sorted(runs.values(), key=lambda run: -run[0])[:NEWEST] for runs in found.values())
    return [one for runs in newest for _, trained, spent in runs if (one := _read(trained, spent))]


def _everywhere(root: Path) -> Iterable[tuple[Trained, float]]:
    for folder in filter(_finished, store.folders(root)):
        yield folder.final, lives.spent(folder)
    for path in folders.published(root / folders.RUNS):
        trained = Trained(path)
        if trained.environment.is_file():
            yield trained, 0.0


def _finished(folder: Folder) -> bool:
    """Whether a run is finished; not of one that is not to be read."""
    try:
        folder.check()
    except UserError:
        return False
    return folder.finished


def _pair(trained: Trained) -> tuple[str, str] | None:
    cell = inventory.cell_of(trained.config)
    return (_base(str(cell["method"])), str(cell.get("backbone"))) if "method" in cell else None


def _read(trained: Trained, spent: float) -> Finished | None:
    """One run; none where its files are another version's, or damaged."""
    try:
        last = progress.last_row(trained.metrics)
        return measured(results.read_config(trained), results.read_environment(trained), last, spent)
    except (UserError, KeyError, TypeError, ArithmeticError):
        return None

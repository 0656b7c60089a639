"""What stands behind the numbers: counts, environments and wall times, parameters that differ from the defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from compclip.runs.results import FinishedRun

MACHINE = ("device", "threads", "python", "git_commit")
SECTIONS = ("train", "method")


@dataclass(frozen=True)
class Count:
    """Counts of one benchmark, `counts` in the order of `reasons`; `cells` says for which runs they hold."""

    benchmark: str
    cells: str
    counts: tuple[int | None, ...]


def counts(runs: Sequence[FinishedRun], benchmarks: Sequence[str]) -> tuple[list[str], list[Count]]:
    """The names of the counts, and a line for each benchmark, or several where the runs' counts differ."""
    every = [(n, r.cell.name, r.results[n].counts) for n in benchmarks for r in runs if n in r.results]
    names = list(dict.fromkeys(key for _, _, found in every for key in found if "/" not in key))
    lines: dict[tuple[str, tuple[int | None, ...]], list[str]] = {}
    for benchmark, cell, found in every:
        lines.setdefault((benchmark, tuple(found.get(n) for n in names)), []).append(cell)
    total = {n: sum(len(cells) for (name, _), cells in lines.items() if name == n) for n in benchmarks}
    return names, [Count(n, _cells(cells, total[n]), found) for (n, found), cells in lines.items()]


def group_counts(runs: Sequence[FinishedRun]) -> list[tuple[str, int]]:
    """(benchmark/metric/group, items) for the counts of groups of items."""
    results = [r for run in runs for r in run.results.values()]
    return list({f"{r.benchmark}/{key}": n for r in results for key, n in r.counts.items() if "/" in key}.items())


def _cells(cells: Sequence[str], total: int) -> str:
    return "all runs" if len(cells) == total else ", ".join(cells)


def stand_ins(runs: Sequence[FinishedRun]) -> list[tuple[str, str]]:
    """(tokenizer, cells) for the runs whose texts were read by a stand-in: their scores do not compare with others."""
    cells: dict[str, list[str]] = {}
    for run in runs:
        for name in dict.fromkeys(r.tokenizer for r in run.results.values() if r.tokenizer):
            cells.setdefault(name, []).append(run.cell.name)
    return [(name, _cells(found, len(runs))) for name, found in cells.items()]


@dataclass(frozen=True)
class Machine:
    """One run's environment, wall times, `dropped` training samples by reason, and `trained` parameters of all."""

    cell: str
    device: str
    threads: str
    commit: str
    train: str
    evaluate: str
    memory: str
    dropped: str
    trained: str
    hours: str


def machines(runs: Sequence[FinishedRun]) -> list[Machine]:
    """A line for each run, from environment.json and the results' own seconds."""
    return [_machine(run) for run in runs]


def _machine(run: FinishedRun) -> Machine:
    facts = run.environment
    device, threads, _, commit = (str(facts.get(key, "–") or "–") for key in MACHINE)
    seconds = facts.get("seconds")
    memory = facts.get("peak_memory_mib")
    dropped = ", ".join(f"{v} {k}" for k, v in sorted((facts.get("dropped") or {}).items()))
    return Machine(
        run.cell.name, device, threads, commit[:10] + ("+" if commit.endswith("+") else ""),
        "–" if seconds is None else duration(seconds), duration(sum(r.seconds for r in run.results.values())),
        "–" if memory is None else f"{memory:,} MiB", dropped or "none", _trained(facts),
        _hours(device_seconds([run])),
    )  # fmt: skip


@dataclass(frozen=True)
class Spent:
    """What the runs of one method took; `key` sorts."""

    method: str
    runs: int
    hours: str
    key: str


def spent(method: str, runs: Sequence[FinishedRun]) -> Spent:
    """GPU-hours of a row's runs."""
    seconds = device_seconds(runs)
    return Spent(method, len(runs), _hours(seconds), "" if seconds is None else f"{seconds:.0f}")


def device_seconds(runs: Sequence[FinishedRun]) -> float | None:
    """Seconds times devices over all lives of the runs that say; None where none does."""
    found = [seconds for run in runs if (seconds := run.environment.get("device_seconds")) is not None]
    return float(sum(found)) if found else None


def hours(runs: Sequence[FinishedRun]) -> str:
    """GPU-hours of all runs, and how many of them do not say."""
    silent = sum(run.environment.get("device_seconds") is None for run in runs)
    told = _hours(device_seconds(runs))
    return f"{told} (without {silent} of {len(runs)} runs, which do not say)" if 0 < silent < len(runs) else told


def _hours(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds / 3600:.2f}"


def _trained(facts: dict[str, Any]) -> str:
    """'35,072 of 5,500,000': trained parameters, and those of the plain model."""
    found = [facts.get(key) for key in ("trained_parameters", "parameters")]
    return "–" if None in found else f"{found[0]:,} of {found[1]:,}"


def duration(seconds: float) -> str:
    """'4.2 s', '3 min 20 s', '2 h 05 min'."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def versions(runs: Sequence[FinishedRun]) -> dict[str, list[str]]:
    """Every package's versions over the runs: more than one is worth knowing."""
    found: dict[str, list[str]] = {}
    for run in runs:
        packages = {"python": run.environment.get("python"), **(run.environment.get("packages") or {})}
        for name, version in packages.items():
            if version and version not in found.setdefault(name, []):
                found[name].append(version)
    return found


@dataclass(frozen=True)
class Setting:
    """A parameter of a method whose value is not the default."""

    key: str
    value: str
    default: str


def settings(run: FinishedRun, defaults: Callable[[FinishedRun], dict[str, Any]]) -> list[Setting]:
    """The run's training and method parameters that differ from the defaults."""
    usual = flatten(defaults(run))
    ours = {k: v for k, v in flatten(run.config).items() if k.partition(".")[0] in SECTIONS}
    return [Setting(k, _show(v), _show(usual.get(k))) for k, v in ours.items() if v != usual.get(k)]


def _show(value: Any) -> str:
    return "–" if value is None else str(value)


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one mapping with dotted keys; other values, lists included, as they are."""
    if not isinstance(value, dict) or not value:
        return {prefix: value} if prefix else {}
    out: dict[str, Any] = {}
    for key, inner in value.items():
        out.update(flatten(inner, f"{prefix}.{key}" if prefix else str(key)))
    return out

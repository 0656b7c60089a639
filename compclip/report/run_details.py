"""What stands behind the numbers: counts, environments and wall times, parameters that differ from the defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from compclip.report.tables import ResultTable
from compclip.runs.result_files import FinishedRun

MACHINE = ("device", "threads", "python", "git_commit")
SECTIONS = ("train", "method")


@dataclass(frozen=True)
class BenchmarkCounts:
    """Counts of one benchmark, `counts` in the order of `reasons`; `cells` says for which runs they hold."""

    benchmark: str
    cells: str
    counts: tuple[int | None, ...]


def tabulate_counts(runs: Sequence[FinishedRun], benchmarks: Sequence[str]) -> tuple[list[str], list[BenchmarkCounts]]:
    """Tabulate the names of the counts, and a line for each benchmark, or several where the runs' counts differ."""
    counts_of_runs = [(n, r.cell.name, r.results[n].counts) for n in benchmarks for r in runs if n in r.results]
    names = list(dict.fromkeys(key for _, _, counts in counts_of_runs for key in counts if "/" not in key))
    lines: dict[tuple[str, tuple[int | None, ...]], list[str]] = {}
    for benchmark, cell, counts in counts_of_runs:
        lines.setdefault((benchmark, tuple(counts.get(n) for n in names)), []).append(cell)
    total = {n: sum(len(cells) for (name, _), cells in lines.items() if name == n) for n in benchmarks}
    return names, [BenchmarkCounts(n, _describe_cells(cells, total[n]), counts) for (n, counts), cells in lines.items()]


def count_groups(runs: Sequence[FinishedRun]) -> list[tuple[str, int]]:
    """List (benchmark/metric/group, items) for the counts of groups of items."""
    results = [r for run in runs for r in run.results.values()]
    return list({f"{r.benchmark}/{key}": n for r in results for key, n in r.counts.items() if "/" in key}.items())


def _describe_cells(cells: Sequence[str], total: int) -> str:
    return "all runs" if len(cells) == total else ", ".join(cells)


def list_stand_in_tokenizers(runs: Sequence[FinishedRun]) -> list[tuple[str, str]]:
    """List (tokenizer, cells) for runs whose texts a stand-in read: their scores do not compare with others."""
    cells: dict[str, list[str]] = {}
    for run in runs:
        for name in dict.fromkeys(r.tokenizer for r in run.results.values() if r.tokenizer):
            cells.setdefault(name, []).append(run.cell.name)
    return [(name, _describe_cells(cell_names, len(runs))) for name, cell_names in cells.items()]


@dataclass(frozen=True)
class RunFacts:
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


def tabulate_runs(runs: Sequence[FinishedRun]) -> list[RunFacts]:
    """Tabulate a line for each run, from environment.json and the results' own seconds."""
    return [_describe_run(run) for run in runs]


def _describe_run(run: FinishedRun) -> RunFacts:
    facts = run.environment
    device, threads, _, commit = (str(facts.get(key, "–") or "–") for key in MACHINE)
    seconds = facts.get("seconds")
    memory = facts.get("peak_memory_mib")
    parameters = [facts.get(key) for key in ("trained_parameters", "parameters")]  # the latter of the plain model
    dropped = ", ".join(f"{v} {k}" for k, v in sorted((facts.get("dropped") or {}).items()))
    return RunFacts(
        run.cell.name,
        device,
        threads,
        commit[:10] + ("+" if commit.endswith("+") else ""),
        "–" if seconds is None else format_duration(seconds),
        format_duration(sum(r.seconds for r in run.results.values())),
        "–" if memory is None else f"{memory:,} MiB",
        dropped or "none",
        "–" if None in parameters else f"{parameters[0]:,} of {parameters[1]:,}",
        _format_hours(sum_device_seconds([run])),
    )


@dataclass(frozen=True)
class MethodHours:
    """What the runs of one method took; `key` sorts."""

    method: str
    runs: int
    hours: str
    key: str


def sum_method_hours(method: str, runs: Sequence[FinishedRun]) -> MethodHours:
    """Sum GPU-hours of a row's runs."""
    seconds = sum_device_seconds(runs)
    return MethodHours(method, len(runs), _format_hours(seconds), "" if seconds is None else f"{seconds:.0f}")


def sum_device_seconds(runs: Sequence[FinishedRun]) -> float | None:
    """Sum seconds times devices over all lives of the runs that say; None where none does."""
    times = [seconds for run in runs if (seconds := run.environment.get("device_seconds")) is not None]
    return float(sum(times)) if times else None


def format_total_hours(runs: Sequence[FinishedRun]) -> str:
    """Format GPU-hours of all runs, and how many of them do not say."""
    silent = sum(run.environment.get("device_seconds") is None for run in runs)
    hours = _format_hours(sum_device_seconds(runs))
    return f"{hours} (without {silent} of {len(runs)} runs, which do not say)" if 0 < silent < len(runs) else hours


def _format_hours(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds / 3600:.2f}"


def format_duration(seconds: float) -> str:
    """Format a duration, as '4.2 s', '3 min 20 s', '2 h 05 min'."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, remainder = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {remainder:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def list_package_versions(runs: Sequence[FinishedRun]) -> dict[str, list[str]]:
    """List every package's versions over the runs."""
    versions: dict[str, list[str]] = {}
    for run in runs:
        packages = {"python": run.environment.get("python"), **(run.environment.get("packages") or {})}
        for name, version in packages.items():
            if version and version not in versions.setdefault(name, []):
                versions[name].append(version)
    return versions


@dataclass(frozen=True)
class ChangedSetting:
    """A parameter of a method whose value is not the default."""

    key: str
    value: str
    default: str


def list_changed_settings(run: FinishedRun, defaults: Callable[[FinishedRun], dict[str, Any]]) -> list[ChangedSetting]:
    """List the run's training and method parameters that differ from the defaults."""
    usual = flatten_keys(defaults(run))
    ours = {k: v for k, v in flatten_keys(run.config).items() if k.partition(".")[0] in SECTIONS}
    return [
        ChangedSetting(k, _format_value(v), _format_value(usual.get(k))) for k, v in ours.items() if v != usual.get(k)
    ]


def _format_value(value: Any) -> str:
    return "–" if value is None else str(value)


def flatten_keys(value: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten nested mappings to one mapping with dotted keys; other values, lists included, stay."""
    if not isinstance(value, dict) or not value:
        return {prefix: value} if prefix else {}
    out: dict[str, Any] = {}
    for key, inner in value.items():
        out.update(flatten_keys(inner, f"{prefix}.{key}" if prefix else str(key)))
    return out


RARE = 0.05  # a share below it is said in a sentence
Shares = Mapping[str, float]


@dataclass(frozen=True)
class MethodShares:
    """One method's views as the table shows them: `common` those of every sample, `partial` with their share."""

    method: str
    common: str
    partial: str


@dataclass(frozen=True)
class GroupShares:
    """The methods of one table, and a sentence for each rare part."""

    name: str
    methods: tuple[MethodShares, ...]
    notes: tuple[str, ...]


def tabulate_view_shares(groups: Iterable[ResultTable]) -> list[GroupShares]:
    """Collect the shares of every trained method; groups without any are left out."""
    sections = []
    for group in groups:
        means = {row.method: mean_shares(row.runs) for row in group.rows}
        methods = tuple(_describe_shares(method, shares) for method, shares in means.items() if shares)
        notes = tuple(note for method, shares in means.items() for note in describe_rare_views(method, shares))
        if methods:
            sections.append(GroupShares(group.name, methods, notes))
    return sections


def mean_shares(runs: Sequence[FinishedRun]) -> Shares:
    """Average each part's share over the runs that say it."""
    recorded = [run.environment.get("view_shares") or {} for run in runs]
    views = dict.fromkeys(view for shares in recorded for view in shares)
    return {view: fmean(shares[view] for shares in recorded if view in shares) for view in views}


def describe_rare_views(method: str, shares: Shares) -> list[str]:
    """Say of each part below RARE how few samples had it."""
    return [
        f"{method}: {view} was there for {_format_share(s)} of the samples" for view, s in shares.items() if s < RARE
    ]


def _describe_shares(method: str, shares: Shares) -> MethodShares:
    common = ", ".join(view for view, share in shares.items() if share == 1)
    partial = ", ".join(f"{view} {_format_share(share)}" for view, share in shares.items() if share != 1)
    return MethodShares(method, common or "–", partial or "–")


def _format_share(share: float) -> str:
    """Format a share, as '97.3 %', with more digits where these would say 0 or 100."""
    digits = 1 if 0.0005 <= share <= 0.9995 else 4
    return f"{100 * share:.{digits}f} %"

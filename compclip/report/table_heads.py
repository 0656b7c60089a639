"""What the head of a table says: its backbone's weights, and how many records of each benchmark were scored.

A column of which less than nine tenths was scored is marked: most often pictures are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compclip.config.grid import PRETRAINED
from compclip.model import model_config
from compclip.report import tables
from compclip.report.tables import Column, MethodRow, ResultTable
from compclip.runs.item_outcomes import PARTIAL, is_partial
from compclip.runs.result_files import FinishedRun

MANY = 8  # benchmarks that are all named
RANDOM = "random weights"  # stands where the pretrained model's name would


@dataclass(frozen=True)
class Coverage:
    """How many records were scored, of how many."""

    scored: int
    records: int

    @property
    def is_partial(self) -> bool:
        """Whether less than nine tenths were scored."""
        return is_partial(self.scored, self.records)

    @property
    def short(self) -> str:
        """'319 of 7,511', '7,511'."""
        return f"{self.records:,}" if self.scored == self.records else f"{self.scored:,} of {self.records:,}"

    @property
    def text(self) -> str:
        """'319 of 7,511 records (4.2 %)', '7,511 records'."""
        percent = 100 * self.scored / self.records
        share = f"{percent:.1f}" if percent < 10 else f"{int(percent)}"  # never rounded up to all
        return f"{self.short} records" + ("" if self.scored == self.records else f" ({share} %)")


def list_runs(group: ResultTable) -> tuple[FinishedRun, ...]:
    """List the runs of all rows."""
    return tuple(run for row in group.rows for run in row.runs)


def column_coverage(column: Column, runs: Sequence[FinishedRun]) -> Coverage | None:
    """Return the column's coverage; of a mean, and over runs, the lowest. None where no result says."""
    members = column.members or tables.mean_members(column, runs)
    if members:
        return _lowest_coverage(column_coverage(member, runs) for member in members)
    return _lowest_coverage(_metric_coverage(run, column) for run in runs)


def _metric_coverage(run: FinishedRun, column: Column) -> Coverage | None:
    result = run.results.get(column.benchmark)
    if result is None:
        return None
    metric = column.metric.partition("/")[0]  # a group of items is as covered as all of them
    if metric in result.coverage:
        return Coverage(*result.coverage[metric])
    return _counted_coverage(run, column.benchmark)


def _counted_coverage(run: FinishedRun, benchmark: str) -> Coverage | None:
    counts = run.results[benchmark].counts if benchmark in run.results else {}
    return Coverage(counts["scored"], counts["records"]) if counts.get("records") and "scored" in counts else None


def _lowest_coverage(coverages: Iterable[Coverage | None]) -> Coverage | None:
    return min((c for c in coverages if c), key=lambda c: c.scored / c.records, default=None)


def benchmark_coverage(group: ResultTable) -> dict[str, Coverage]:
    """Return the coverage of each benchmark that the group's columns are of, in their order.

    The lowest over its runs.
    """
    runs = list_runs(group)
    names = dict.fromkeys(name for column in group.columns for name in column_benchmarks(column))
    coverages = {name: _lowest_coverage(_counted_coverage(run, name) for run in runs) for name in names}
    return {name: coverage for name, coverage in coverages.items() if coverage}


def column_benchmarks(column: Column) -> list[str]:
    """Return the benchmarks that a column is of; several where it is a mean over them."""
    if not column.members:
        return [column.benchmark]
    return list(dict.fromkeys(name for member in column.members for name in column_benchmarks(member)))


def coverage_by_column(group: ResultTable) -> dict[Column, Coverage | None]:
    """Return the coverage of each column of a table."""
    runs = list_runs(group)
    return {column: column_coverage(column, runs) for column in group.columns}


def partial_marks(group: ResultTable) -> dict[Column, str]:
    """Return the mark of each column of which less than nine tenths was scored."""
    return {
        column: PARTIAL for column, coverage in coverage_by_column(group).items() if coverage and coverage.is_partial
    }


def describe_records(group: ResultTable) -> str:
    """Describe how many records of each benchmark were scored, in words; marked where less than nine tenths.

    Of many benchmarks those that were scored whole are counted alone.
    """
    coverages = benchmark_coverage(group)
    complete = [name for name, coverage in coverages.items() if coverage.scored == coverage.records]
    counted = complete if len(coverages) > MANY else []
    texts = [
        f"{name} {coverage.text}{f' {PARTIAL}' if coverage.is_partial else ''}"
        for name, coverage in coverages.items()
        if name not in counted
    ]
    return "; ".join(texts + ([f"all records of {len(counted)} others"] if counted else []))


def describe_marks(group: ResultTable) -> list[str]:
    """Describe what the marks mean, where there are any."""
    if not partial_marks(group):
        return []
    return [f"{PARTIAL} less than nine tenths of the column's records were scored: it compares with no full benchmark"]


def list_warnings(group: ResultTable) -> list[str]:
    """List warnings for the terminal: random weights, and benchmarks of which too little was scored."""
    lines = (
        [f"{group.name}: the backbone has {RANDOM}; there is no pretrained model"] if has_random_weights(group) else []
    )
    partial = {name: coverage for name, coverage in benchmark_coverage(group).items() if coverage.is_partial}
    return lines + [f"{group.name}: {name}: scored {coverage.text}" for name, coverage in partial.items()]


def list_backbones(runs: Iterable[FinishedRun]) -> list[tuple[str, str]]:
    """List the different backbones of runs, as (model, weights) of their configurations."""
    sections = (run.config.get("backbone") or {} for run in runs)
    return list(dict.fromkeys((str(s["model"]), str(s.get("weights") or "")) for s in sections if s.get("model")))


def model_name(group: ResultTable) -> str:
    """Return the backbone's model as its section names it; empty where no run says."""
    return ", ".join(dict.fromkeys(name for name, _ in list_backbones(list_runs(group))))


def weights_name(group: ResultTable) -> str:
    """Return what the backbone's weights are, as a word of a file: a tag, a path, `random`; empty where no run says."""
    backbones = list_backbones(list_runs(group))
    return ", ".join(
        "random" if model_config.has_random_weights(*start) else start[1] or start[0] for start in backbones
    )


def describe_backbone(group: ResultTable) -> str:
    """Describe the backbone in words: its model and where its weights are from; empty where no run says."""
    return "; ".join(_describe_weights(*start) for start in list_backbones(list_runs(group)))


def _describe_weights(model: str, tag: str) -> str:
    if model_config.has_random_weights(model, tag):
        return f"{model}, {RANDOM} (not pretrained)"
    return f"{model}, pretrained weights {tag}" if tag else f"{model}, its own pretrained weights"


def row_label(row: MethodRow, group: ResultTable) -> str:
    """Return the label of a row: a model of random weights is not called pretrained."""
    return RANDOM if row.method == PRETRAINED and has_random_weights(group) else row.method


def has_random_weights(group: ResultTable) -> bool:
    """Return whether the backbone of some run of the table has random weights."""
    return any(model_config.has_random_weights(*start) for start in list_backbones(list_runs(group)))

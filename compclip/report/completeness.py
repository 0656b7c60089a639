"""What the head of a table says: its backbone's weights, and how many records of each benchmark were scored.

A column of which less than nine tenths was scored is marked: most often pictures are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compclip.config.cell import PRETRAINED
from compclip.model.architecture import is_random
from compclip.report import tables
from compclip.report.tables import Column, Group, Row
from compclip.runs.items import PARTIAL, is_partial
from compclip.runs.results import FinishedRun

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


def runs_of(group: Group) -> tuple[FinishedRun, ...]:
    """The runs of all rows."""
    return tuple(run for row in group.rows for run in row.runs)


def of_column(column: Column, runs: Sequence[FinishedRun]) -> Coverage | None:
    """The column's coverage; of a mean, and over runs, the lowest. None where no result says."""
    parts = column.parts or tables.members(column, runs)
    if parts:
        return _lowest(of_column(part, runs) for part in parts)
    return _lowest(_of_metric(run, column) for run in runs)


def _of_metric(run: FinishedRun, column: Column) -> Coverage | None:
    result = run.results.get(column.benchmark)
    if result is None:
        return None
    whole = column.metric.partition("/")[0]  # a group of items is as covered as all of them
    if whole in result.coverage:
        return Coverage(*result.coverage[whole])
    return _of_counts(run, column.benchmark)


def _of_counts(run: FinishedRun, benchmark: str) -> Coverage | None:
    counts = run.results[benchmark].counts if benchmark in run.results else {}
    return Coverage(counts["scored"], counts["records"]) if counts.get("records") and "scored" in counts else None


def _lowest(found: Iterable[Coverage | None]) -> Coverage | None:
    return min((c for c in found if c), key=lambda c: c.scored / c.records, default=None)


def of_benchmarks(group: Group) -> dict[str, Coverage]:
    """The coverage of each benchmark that the group's columns are of, in their order; the lowest over its runs."""
    runs = runs_of(group)
    names = dict.fromkeys(name for column in group.columns for name in benchmarks_of(column))
    found = {name: _lowest(_of_counts(run, name) for run in runs) for name in names}
    return {name: coverage for name, coverage in found.items() if coverage}


def benchmarks_of(column: Column) -> list[str]:
    """The benchmarks that a column is of; several where it is a mean over them."""
    if not column.parts:
        return [column.benchmark]
    return list(dict.fromkeys(name for part in column.parts for name in benchmarks_of(part)))


def of_columns(group: Group) -> dict[Column, Coverage | None]:
    """The coverage of each column of a table."""
    runs = runs_of(group)
    return {column: of_column(column, runs) for column in group.columns}


def marks(group: Group) -> dict[Column, str]:
    """The mark of each column of which less than nine tenths was scored."""
    return {column: PARTIAL for column, coverage in of_columns(group).items() if coverage and coverage.is_partial}


def records(group: Group) -> str:
    """How many records of each benchmark were scored, in words; marked where less than nine tenths.

    Of many benchmarks those that were scored whole are counted alone.
    """
    found = of_benchmarks(group)
    whole = [name for name, coverage in found.items() if coverage.scored == coverage.records]
    counted = whole if len(found) > MANY else []
    texts = [
        f"{name} {coverage.text}{f' {PARTIAL}' if coverage.is_partial else ''}"
        for name, coverage in found.items()
        if name not in counted
    ]
    return "; ".join(texts + ([f"all records of {len(counted)} others"] if counted else []))


def notes(group: Group) -> list[str]:
    """What the marks mean, where there are any."""
    if not marks(group):
        return []
    return [f"{PARTIAL} less than nine tenths of the column's records were scored: it compares with no full benchmark"]


def warnings(group: Group) -> list[str]:
    """A line for the terminal for random weights, and for each benchmark that is not all there."""
    lines = [f"{group.name}: the backbone has {RANDOM}; there is no pretrained model"] if random_start(group) else []
    partial = {name: coverage for name, coverage in of_benchmarks(group).items() if coverage.is_partial}
    return lines + [f"{group.name}: {name}: scored {coverage.text}" for name, coverage in partial.items()]


def starts(runs: Iterable[FinishedRun]) -> list[tuple[str, str]]:
    """The different backbones of runs, as (model, weights) of their configurations."""
    sections = (run.config.get("backbone") or {} for run in runs)
    return list(dict.fromkeys((str(s["model"]), str(s.get("weights") or "")) for s in sections if s.get("model")))


def model(group: Group) -> str:
    """The backbone's model as its section names it; empty where no run says."""
    return ", ".join(dict.fromkeys(name for name, _ in starts(runs_of(group))))


def weights(group: Group) -> str:
    """What the backbone's weights are, as a word of a file: a tag, a path, `random`; empty where no run says."""
    found = starts(runs_of(group))
    return ", ".join("random" if is_random(*start) else start[1] or start[0] for start in found)


def backbone(group: Group) -> str:
    """The backbone in words: its model and where its weights are from; empty where no run says."""
    return "; ".join(_described(*start) for start in starts(runs_of(group)))


def _described(model: str, tag: str) -> str:
    if is_random(model, tag):
        return f"{model}, {RANDOM} (not pretrained)"
    return f"{model}, pretrained weights {tag}" if tag else f"{model}, its own pretrained weights"


def label(row: Row, group: Group) -> str:
    """What a row is called: a model of random weights is not called pretrained."""
    return RANDOM if row.method == PRETRAINED and random_start(group) else row.method


def random_start(group: Group) -> bool:
    """Whether the backbone of some run of the table has random weights."""
    return any(is_random(*start) for start in starts(runs_of(group)))

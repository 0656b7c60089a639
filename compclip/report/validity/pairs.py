"""Pairs of differences to the pretrained model: ours on the scenes, by seed, and the published one that it stands for.

Of one row and one column of ours the papers print several numbers. Their differences are averaged over tables that
print the same model, then over columns, models and papers, so that a model printed five times weighs once.
Differences are in points (scores in their own unit), and higher is better: where less is, both signs are turned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from compclip.config.cell import PRETRAINED
from compclip.report import tables
from compclip.report.published import Number
from compclip.report.statistics import mean_std
from compclip.report.tables import Column
from compclip.report.validity.declared import Counterpart, Declared
from compclip.runs.results import FinishedRun

DIGITS = 6  # of differences: what is equal stays equal, whatever order it was summed in
Table = tuple[str, str]  # paper and its table


@dataclass(frozen=True)
class Printed:
    """One published difference: of a row and the pretrained model of its table, on the same backbone."""

    paper: str
    table: str
    row: str
    method: str
    backbone: str
    data: str
    column: str
    difference: float

    @property
    def model(self) -> tuple[str, str, str, str]:
        """Which weights: tables that agree in it print the same ones."""
        return self.paper, self.method, self.backbone, self.data

    @property
    def text(self) -> str:
        """Where it stands."""
        on = ", ".join(filter(None, (self.backbone, self.data)))
        return f"{self.paper}, {self.table}: {self.row} ({on}), {self.column}"


@dataclass(frozen=True)
class Pair:
    """A row and a column of ours: our difference of each seed, and the published one with what it is the mean of."""

    row: str
    column: Counterpart
    kind: str
    unit: Column
    chosen: bool
    seeds: tuple[int, ...]
    ours: tuple[float, ...]
    printed: tuple[Printed, ...]

    @property
    def mean(self) -> float:
        """Our difference over seeds."""
        return round(mean_std(self.ours)[0], DIGITS)

    @property
    def published(self) -> float:
        """The published difference."""
        return _turned(combine(self.printed), self.unit)


class Prints(Protocol):
    """The published differences of some rows of a paper's table in one column."""

    def __call__(self, row: str, column: str) -> tuple[Printed, ...]:
        """Of a row of ours, all that its published rows print."""


def printed(declared: Declared, numbers: Sequence[Number]) -> Prints:
    """A function that gives all published differences of a row of ours in a published column."""
    values: dict[tuple[Table, str], list[Number]] = {}
    for n in numbers:
        values.setdefault(((n.paper, n.table), n.column), []).append(n)

    def differences(row: str, column: str) -> tuple[Printed, ...]:
        found = []
        for source in declared.sources(row):
            here = (source.paper, source.table)
            base = (source.paper, declared.baselines.get(here, source.table))
            bases = {n.backbone: n for n in values.get((base, column), ()) if n.method == PRETRAINED}
            rows = [n for n in values.get((here, column), ()) if n.row == source.row]
            found += [_difference(n, bases[n.backbone]) for n in rows if n.backbone in bases]
        return tuple(found)

    return differences


def _difference(number: Number, base: Number) -> Printed:
    gap = round(float(number.value) - float(base.value), DIGITS)
    return Printed(number.paper, number.table, *number.model, number.column, gap)


def combine(found: Sequence[Printed]) -> float:
    """Their mean: over tables, then columns, models and papers. Raises ZeroDivisionError of nothing."""
    levels: Sequence[Callable[[Printed], Any]] = (
        lambda p: p.paper, lambda p: p.model, lambda p: p.column, lambda p: p.table,
    )  # fmt: skip
    return round(_nested(found, levels), DIGITS)


def _nested(found: Sequence[Printed], levels: Sequence[Callable[[Printed], Any]]) -> float:
    if not levels:
        return mean_std([p.difference for p in found])[0]
    groups: dict[Any, list[Printed]] = {}
    for p in found:
        groups.setdefault(levels[0](p), []).append(p)
    return mean_std([_nested(own, levels[1:]) for own in groups.values()])[0]


def make(
    declared: Declared, numbers: Sequence[Number], runs: Sequence[FinishedRun], columns: Mapping[str, Column],
    held_out: bool,
) -> list[Pair]:  # fmt: skip
    """Every pair of the runs; without `held_out` nothing is computed of one that is kept aside.

    `columns` are ours by name. A pair needs a seed of ours with the column and one published difference.
    """
    prints, kinds = printed(declared, numbers), {f.name: f.kind for f in declared.families}
    by_row: dict[str, list[FinishedRun]] = {}
    for run in runs:
        by_row.setdefault(run.cell.method, []).append(run)
    base = by_row.pop(PRETRAINED, [])
    found = []
    for row, mine in by_row.items():
        for column in declared.columns:
            chosen = row in declared.row_halves and declared.chosen(row, column)
            unit = columns.get(column.name)
            if unit is None or row not in declared.row_halves or not (chosen or held_out):
                continue
            told = tuple(p for name in column.published for p in prints(row, name))
            ours = _ours(mine, base, unit)
            if told and ours:
                kind = kinds[column.family]
                found.append(Pair(row, column, kind, unit, chosen, tuple(ours), tuple(ours.values()), told))
    return found


def _ours(mine: Sequence[FinishedRun], base: Sequence[FinishedRun], unit: Column) -> dict[int, float]:
    """Our difference of each seed that has the column; none without the pretrained model's."""
    theirs = [v for run in base if (v := tables.value(run, unit)) is not None]
    values = {run.cell.seed: v for run in mine if (v := tables.value(run, unit)) is not None}
    if not theirs:
        return {}
    start = mean_std(theirs)[0]
    return {seed: _turned((v - start) * unit.scale, unit) for seed, v in values.items()}


def _turned(difference: float, unit: Column) -> float:
    """Up is better."""
    return round(-difference if unit.lower else difference, DIGITS) + 0.0

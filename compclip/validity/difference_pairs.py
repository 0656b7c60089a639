"""Pairs of differences to the pretrained model: ours on the scenes, by seed, and the published one that it stands for.

The papers print several numbers for one row and column of ours. Their differences are averaged over tables that
print the same model, then over columns, models and papers, so that a model printed five times weighs once.
Differences are in points (scores in their own unit), and higher is better: where less is better, signs are turned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from compclip.config.grid import PRETRAINED
from compclip.report import tables
from compclip.report.published_numbers import PublishedNumber
from compclip.report.statistics import mean_std
from compclip.report.tables import Column
from compclip.runs.result_files import FinishedRun
from compclip.validity.counterparts import Counterpart, Counterparts

DIGITS = 6  # of differences: equal values stay equal whatever the order of summation
PaperTable = tuple[str, str]  # paper and its table


@dataclass(frozen=True)
class PrintedDifference:
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
        """What identifies the weights: tables that agree in it print the same model."""
        return self.paper, self.method, self.backbone, self.data

    @property
    def text(self) -> str:
        """Where the difference is printed, as text."""
        on = ", ".join(filter(None, (self.backbone, self.data)))
        return f"{self.paper}, {self.table}: {self.row} ({on}), {self.column}"


@dataclass(frozen=True)
class DifferencePair:
    """A row and a column of ours: our difference of each seed, and the published one with what it is the mean of."""

    row: str
    column: Counterpart
    kind: str
    unit: Column
    is_choosing: bool
    seeds: tuple[int, ...]
    ours: tuple[float, ...]
    printed: tuple[PrintedDifference, ...]

    @property
    def mean(self) -> float:
        """Our difference over seeds."""
        return round(mean_std(self.ours)[0], DIGITS)

    @property
    def published(self) -> float:
        """The published difference."""
        return _higher_is_better(average_printed(self.printed), self.unit)


class Prints(Protocol):
    """Looks up published differences."""

    def __call__(self, row: str, column: str) -> tuple[PrintedDifference, ...]:
        """Return all differences that the published rows of `row` print in a published column."""


def index_printed(declared: Counterparts, numbers: Sequence[PublishedNumber]) -> Prints:
    """Return a function that looks up the published differences of a row of ours in a published column."""
    values: dict[tuple[PaperTable, str], list[PublishedNumber]] = {}
    for n in numbers:
        values.setdefault(((n.paper, n.table), n.column), []).append(n)

    def differences(row: str, column: str) -> tuple[PrintedDifference, ...]:
        differences_of_row = []
        for source in declared.published_rows(row):
            here = (source.paper, source.table)
            base = (source.paper, declared.baselines.get(here, source.table))
            bases = {n.backbone: n for n in values.get((base, column), ()) if n.method == PRETRAINED}
            rows = [n for n in values.get((here, column), ()) if n.row == source.row]
            differences_of_row += [_difference(n, bases[n.backbone]) for n in rows if n.backbone in bases]
        return tuple(differences_of_row)

    return differences


def _difference(number: PublishedNumber, base: PublishedNumber) -> PrintedDifference:
    gap = round(float(number.value) - float(base.value), DIGITS)
    return PrintedDifference(number.paper, number.table, *number.model, number.column, gap)


def average_printed(differences: Sequence[PrintedDifference]) -> float:
    """Average over tables, then columns, models and papers. Raises ZeroDivisionError for no differences."""
    levels: Sequence[Callable[[PrintedDifference], Any]] = (
        lambda p: p.paper,
        lambda p: p.model,
        lambda p: p.column,
        lambda p: p.table,
    )
    return round(_nested_mean(differences, levels), DIGITS)


def _nested_mean(
    differences: Sequence[PrintedDifference], levels: Sequence[Callable[[PrintedDifference], Any]]
) -> float:
    if not levels:
        return mean_std([p.difference for p in differences])[0]
    groups: dict[Any, list[PrintedDifference]] = {}
    for p in differences:
        groups.setdefault(levels[0](p), []).append(p)
    return mean_std([_nested_mean(group, levels[1:]) for group in groups.values()])[0]


def make_pairs(
    declared: Counterparts,
    numbers: Sequence[PublishedNumber],
    runs: Sequence[FinishedRun],
    columns: Mapping[str, Column],
    held_out: bool,
) -> list[DifferencePair]:
    """Return every pair of the runs; without `held_out` nothing is computed of a held-out pair.

    `columns` are ours by name. A pair needs a seed of ours with the column and one published difference.
    """
    prints, kinds = index_printed(declared, numbers), {f.name: f.kind for f in declared.families}
    by_row: dict[str, list[FinishedRun]] = {}
    for run in runs:
        by_row.setdefault(run.cell.method, []).append(run)
    base = by_row.pop(PRETRAINED, [])
    pairs = []
    for row, runs_of_row in by_row.items():
        for column in declared.columns:
            is_choosing = row in declared.row_halves and declared.is_choosing(row, column)
            unit = columns.get(column.name)
            if unit is None or row not in declared.row_halves or not (is_choosing or held_out):
                continue
            printed = tuple(p for name in column.published for p in prints(row, name))
            ours = _our_differences(runs_of_row, base, unit)
            if printed and ours:
                kind = kinds[column.family]
                pairs.append(
                    DifferencePair(row, column, kind, unit, is_choosing, tuple(ours), tuple(ours.values()), printed)
                )
    return pairs


def _our_differences(
    runs: Sequence[FinishedRun], pretrained_runs: Sequence[FinishedRun], unit: Column
) -> dict[int, float]:
    """Return our difference of each seed that has the column; {} where the pretrained model lacks it."""
    pretrained_values = [v for run in pretrained_runs if (v := tables.column_value(run, unit)) is not None]
    values = {run.cell.seed: v for run in runs if (v := tables.column_value(run, unit)) is not None}
    if not pretrained_values:
        return {}
    start = mean_std(pretrained_values)[0]
    return {seed: _higher_is_better((v - start) * unit.scale, unit) for seed, v in values.items()}


def _higher_is_better(difference: float, unit: Column) -> float:
    """Turn the sign where less is better, and round."""
    return round(-difference if unit.lower else difference, DIGITS) + 0.0

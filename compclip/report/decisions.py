"""What a table's numbers can decide: corrections for many comparisons, least differences, missing seeds, and orders.

A comparison's p value is the level at which its interval would touch the margin. The best row of a column is bold if
its difference to every other row is decided, the second is underlined if those to all rows below it are too; of the
others it is said which cannot be told from the best. `report.correction` is made over all that are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from compclip.config.cell import PRETRAINED
from compclip.config.sections import BENJAMINI_HOCHBERG, HOLM
from compclip.report import tables
from compclip.report.statistics import LEVEL, Interval, Spread, student_quantile
from compclip.report.tables import Column, MethodRow, ResultTable, RunsBySeed, Statistic

POWER = 0.8  # how often a least difference is decided
MOST_SEEDS = 100
NAMES = {HOLM: "Holm", BENJAMINI_HOCHBERG: "Benjamini-Hochberg"}


def p_value(interval: Interval, margin: float = 0.0) -> float:
    """Return the p value of a difference to `margin`; 0 or 1 where the interval is a point."""
    if interval.spread is None:
        return float("nan")
    return interval.spread.p_value(interval.estimate - margin)


def adjust(p_values: Sequence[float], method: str) -> np.ndarray:
    """Return p values adjusted for their number: Holm (1979), Benjamini and Hochberg (1995), or as they are.

    Holm holds the chance of one false decision among all, Benjamini-Hochberg the share of false ones among decided.
    """
    p_N = np.asarray(p_values, float)
    order = np.argsort(p_N, kind="stable")
    size = len(p_N)
    adjusted = np.empty(size)
    if method == HOLM:
        adjusted[order] = np.maximum.accumulate(p_N[order] * np.arange(size, 0, -1))
    elif method == BENJAMINI_HOCHBERG:
        steps = p_N[order] * size / np.arange(1, size + 1)
        adjusted[order] = np.minimum.accumulate(steps[::-1])[::-1]
    else:
        return p_N
    return np.minimum(adjusted, 1.0)


def describe_correction(method: str) -> str:
    """Describe what a report corrects; empty for nothing."""
    if method not in NAMES:
        return ""
    return (
        "Marks (▲ ▼, bold, ≈) and the claims' verdicts are corrected for the number of comparisons in a table by "
        f"{NAMES[method]} (report.correction). Intervals are shown as they are: one that excludes 0 may stand without "
        "a mark."
    )


def correct_table(table: ResultTable, method: str) -> ResultTable:
    """Return a table whose verdicts are those that remain after a correction over all of its differences."""
    statistics_of = [s for _, _, s in table.numbers() if s.difference]
    if method not in NAMES or not statistics_of:
        return table
    adjusted = adjust([p_value(s.difference) for s in statistics_of if s.difference], method)
    undecided = {id(s) for s, p in zip(statistics_of, adjusted, strict=True) if not p <= LEVEL}
    return table.change(lambda s: replace(s, verdict=0) if id(s) in undecided else s)


def least_difference(spread: Spread, level: float = LEVEL) -> float:
    """Return the difference that is decided in about 8 of 10 repeats: half widths of the level and of the power."""
    return spread.half_width(level) + spread.half_width(2 * (1 - POWER))


def least_of_column(rows: Sequence[MethodRow], column_index: int) -> float | None:
    """Return the median of the least differences of a column's rows; None where no row has an interval."""
    spreads = [s.difference.spread for row in rows if (s := row.statistics[column_index]) and s.difference]
    least = [least_difference(spread) for spread in spreads if spread]
    return float(np.median(least)) if least else None


def seeds_needed(interval: Interval, margin: float = 0.0) -> int | None:
    """Return how many seeds would decide a difference as large as this one; None where the items never do."""
    gap = abs(interval.estimate - margin)
    spread = interval.spread
    if spread is None or spread.seed is None or not gap:
        return None
    for seeds in range(2, MOST_SEEDS + 1):
        if spread.with_seeds(seeds).half_width() < gap:
            return seeds
    return None


def describe_seeds(interval: Interval, margin: float, column: Column) -> str:
    """Describe what would decide an open difference: more seeds, or more items."""
    seeds = seeds_needed(interval, margin)
    if seeds is not None:
        return f"{seeds} seeds would decide a difference this large"
    spread = interval.spread
    if spread is None or spread.seed is None:
        return ""
    units = max(spread.unit.value - spread.noise, 0.0)
    half = column.scale * student_quantile(np.inf) * sqrt(units)
    return f"no number of seeds would decide a difference this small: its items leave ±{half:.{column.digits}f}"


# --- which order of a column's rows is decided


@dataclass(frozen=True)
class OrderComparison:
    """The best or second row of a column against one below it; without an interval nothing is decided."""

    column_index: int
    upper: int
    lower: int
    interval: Interval | None
    is_lower: bool

    @property
    def is_ordered(self) -> bool:
        """Whether the upper row is better over the seeds of both."""
        return self.interval is not None and (self.interval.estimate < 0) == self.is_lower


def mark_order(table: ResultTable, correction: str = "") -> ResultTable:
    """Return a table that keeps the ranks which are decided, and names for other rows the best that they may equal."""
    if not any(cell and cell.rank for row in table.rows for cell in row.statistics):
        return table
    comparisons = list_comparisons(table)
    measured = [c for c in comparisons if c.interval]
    p_values = [p_value(c.interval) for c in measured if c.interval]
    adjusted = adjust(p_values, correction)
    decided = {
        (c.column_index, c.upper, c.lower)
        for c, p in zip(measured, adjusted, strict=True)
        if p <= LEVEL and c.is_ordered
    }
    cells = [list(row.statistics) for row in table.rows]
    for column_index, column in enumerate(table.columns):
        order = order_rows(table.rows, column_index, column)
        for index, cell in _mark_column(table.rows, column_index, order, decided).items():
            cells[index][column_index] = cell
    rows = (replace(row, statistics=tuple(statistics)) for row, statistics in zip(table.rows, cells, strict=True))
    return replace(table, rows=tuple(rows))


def order_rows(rows: Sequence[MethodRow], column_index: int, column: Column) -> list[int]:
    """Return the rows that have a column, the best first; none of a cosine, of which neither is better."""
    means = {index: cell.mean for index, row in enumerate(rows) if (cell := row.statistics[column_index])}
    return [] if column.score else sorted(means, key=lambda index: means[index] if column.lower else -means[index])


def list_comparisons(table: ResultTable) -> list[OrderComparison]:
    """Compare the best row of each column, and the second, with all rows below it."""
    trained = [run for row in table.rows if row.method != PRETRAINED for run in row.runs]
    runs = [_index_row(row, tables.index_runs(trained)) for row in table.rows]
    comparisons = []
    for column_index, column in enumerate(table.columns):
        order = order_rows(table.rows, column_index, column)
        for rank in range(min(2, len(order) - 1)):
            for lower in order[rank + 1 :]:
                difference = tables.compute_difference(column, runs[order[rank]], runs[lower])
                interval = difference.difference if difference else None
                comparisons.append(OrderComparison(column_index, order[rank], lower, interval, column.lower))
    return comparisons


def _index_row(row: MethodRow, trainings: Collection[int]) -> RunsBySeed:
    """Return a row's runs by training; the pretrained model is beside every one of its backbone."""
    runs = tables.index_runs(row.runs)
    return tables.repeat_pretrained(row.runs, trainings or runs) if row.method == PRETRAINED else runs


def _mark_column(
    rows: Sequence[MethodRow], column_index: int, order: Sequence[int], decided: set[tuple[int, int, int]]
) -> dict[int, Statistic]:
    """Return the column's cells with what is decided."""
    if len(order) < 2:
        return {}
    best, second = order[:2]
    equals = [index for index in order[1:] if (column_index, best, index) not in decided]
    is_second = not equals and all((column_index, second, index) in decided for index in order[2:])
    marked = {}
    for index in order:
        cell = rows[index].statistics[column_index]
        assert cell is not None, "order_rows names rows that have the column"
        rank = 1 if index == best and not equals else 2 if index == second and is_second else 0
        nearest = equals[0] if index == best and equals else best
        equal_to = rows[nearest].method if equals and index in (best, *equals) else ""
        marked[index] = replace(cell, rank=rank, equal_to=equal_to)
    return marked

"""What a table's numbers can decide: corrections for many comparisons, least differences, and seeds that are missing.

A comparison's p value is the level at which its interval would touch the margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from compclip.config.sections import BENJAMINI_HOCHBERG, HOLM
from compclip.report.statistics import Interval
from compclip.report.tables import Column, MethodRow, ResultTable
from compclip.report.variance_parts import LEVEL, Spread, student_quantile

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
    order, size = np.argsort(p_N, kind="stable"), len(p_N)
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
    statistics_of = [s for row in table.rows for s in row.statistics if s and s.difference]
    if method not in NAMES or not statistics_of:
        return table
    adjusted = adjust([p_value(s.difference) for s in statistics_of if s.difference], method)
    undecided = {id(s) for s, p in zip(statistics_of, adjusted, strict=True) if not p <= LEVEL}
    rows = []
    for row in table.rows:
        cells = tuple(replace(s, verdict=0) if s and id(s) in undecided else s for s in row.statistics)
        rows.append(replace(row, statistics=cells))
    return replace(table, rows=tuple(rows))


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
    gap, spread = abs(interval.estimate - margin), interval.spread
    if spread is None or spread.seed is None or not gap:
        return None
    for seeds in range(2, MOST_SEEDS + 1):
        if spread.with_seeds(seeds).half_width() < gap:
            return seeds
    return None


def describe_seeds(interval: Interval, margin: float, column: Column) -> str:
    """Describe what would decide an open difference: more seeds, or more items."""
    if (seeds := seeds_needed(interval, margin)) is not None:
        return f"{seeds} seeds would decide a difference this large"
    spread = interval.spread
    if spread is None or spread.seed is None:
        return ""
    if spread.over_backbones:
        half = column.scale * spread.with_seeds(MOST_SEEDS).half_width()
        least = f"±{half:.{column.digits}f}"
        return f"no number of seeds would decide a difference this small: its items and backbones leave {least}"
    units = max(spread.unit.value - spread.noise, 0.0)
    half = column.scale * student_quantile(np.inf) * sqrt(units)
    return f"no number of seeds would decide a difference this small: its items leave ±{half:.{column.digits}f}"

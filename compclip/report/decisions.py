"""What a table's numbers can decide: corrections for many comparisons, least differences, missing seeds, and orders.

A comparison's p value is the level at which its interval would touch the margin. The best row of a column is bold if
its difference to every other row is decided, the second is underlined if those to all rows below it are too; of the
others it is said which cannot be told from the best. `report.correction` is made over all that are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import sqrt

import numpy as np

from compclip.config.sections import BENJAMINI_HOCHBERG, HOLM
from compclip.report import composition_rule, tables
from compclip.report.statistics import LEVEL, Interval, Spread, student_quantile
from compclip.report.tables import Column, ResultTable, Statistic

POWER = 0.8  # how often a least difference is decided
MOST_SEEDS = 100
NAMES = {HOLM: "Holm", BENJAMINI_HOCHBERG: "Benjamini-Hochberg"}


def p_value(interval: Interval, margin: float = 0.0) -> float:
    """Return the p value of a difference to `margin`; 0 or 1 where the interval is a point."""
    if interval.spread is None:
        return float("nan")
    return interval.spread.p_value(interval.estimate - margin)


def verdict_p_value(statistic: Statistic) -> float:
    """Return the p value of a verdict: the largest of the intervals that must agree; 1 where two point apart."""
    intervals = composition_rule.list_intervals(statistic)
    if len({interval.estimate > 0 for interval in intervals}) > 1:
        return 1.0
    return max(map(p_value, intervals))


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
    if method not in NAMES:
        return table
    compared = []
    p_values = []
    for _, _, statistic in table.numbers():
        if statistic.difference:
            compared.append(statistic)
            p_values.append(verdict_p_value(statistic))
    adjusted = adjust(p_values, method)
    undecided = {id(s) for s, p in zip(compared, adjusted, strict=True) if not p <= LEVEL}
    return table.change(lambda s: replace(s, verdict=0) if id(s) in undecided else s)


def least_difference(spread: Spread, level: float = LEVEL) -> float:
    """Return the difference that is decided in about 8 of 10 repeats: half widths of the level and of the power."""
    return spread.half_width(level) + spread.half_width(2 * (1 - POWER))


def list_least(table: ResultTable) -> dict[Column, float]:
    """Return for each column that has an interval the median of its rows' least differences."""
    least: dict[Column, list[float]] = {}
    for _, column, statistic in table.numbers():
        if statistic.difference and statistic.difference.spread:
            least.setdefault(column, []).append(least_difference(statistic.difference.spread))
    return {column: float(np.median(values)) for column, values in least.items()}


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


def mark_order(table: ResultTable, correction: str = "", best: str = "") -> ResultTable:
    """Return a table with the ranks that are decided; other rows name the best one that they may equal.

    `best` at composition comes first in the order of Comp, whatever its mean. Over random weights none is better than
    another.
    """
    if tables.has_random_weights(table):
        return table
    orders = {column: order_rows(table, column) for column in table.columns}
    comp = table.summaries.get(composition_rule.COMP)
    if comp and best in orders[comp]:
        orders[comp].sort(key=lambda method: method != best)
    decided = list_decided(table, orders, correction)
    numbers = {row.method: dict(row.statistics) for row in table.rows}
    for column, order in orders.items():
        for method, (rank, equal_to) in _rank_column(column, order, decided).items():
            numbers[method][column] = replace(numbers[method][column], rank=rank, equal_to=equal_to)
    return table.with_statistics(numbers)


def order_rows(table: ResultTable, column: Column) -> list[str]:
    """Return the methods that have a column, the best first; none of a cosine, of which neither is better."""
    if column.score:
        return []
    means = {row.method: row.statistics[column].mean for row in table.rows if column in row.statistics}
    return sorted(means, key=lambda method: means[method] if column.lower else -means[method])


def list_decided(
    table: ResultTable, orders: Mapping[Column, Sequence[str]], correction: str
) -> set[tuple[Column, str, str]]:
    """Compare the best row of each column, and the second, with all rows below it.

    Returns the pairs whose order is decided: column, upper and lower method.
    """
    runs = table.runs_by_seed
    columns = list(table.columns)
    for column in table.columns:
        columns += composition_rule.leave_out_each(column).values()
    priors = tables.estimate_priors(columns, runs.values())
    pairs = []
    p_values = []
    for column, order in orders.items():
        for rank, upper in enumerate(order[:2]):
            for lower in order[rank + 1 :]:
                compare = partial(tables.compute_difference, left=runs[upper], right=runs[lower], priors=priors)
                compared = composition_rule.compare_methods(column, compare)
                if compared and compared.difference:
                    is_ordered = (compared.difference.estimate < 0) == column.lower  # over the seeds of both
                    pairs.append((column, upper, lower, is_ordered))
                    p_values.append(verdict_p_value(compared))
    adjusted = adjust(p_values, correction)
    return {pair[:3] for pair, p in zip(pairs, adjusted, strict=True) if p <= LEVEL and pair[3]}


def _rank_column(
    column: Column, order: Sequence[str], decided: Collection[tuple[Column, str, str]]
) -> dict[str, tuple[int, str]]:
    """Return for each method of which something is decided its rank, or the best row that it may equal."""
    if len(order) < 2:
        return {}
    best, second = order[:2]
    equals = [method for method in order[1:] if (column, best, method) not in decided]
    if equals:
        return {best: (0, equals[0])} | dict.fromkeys(equals, (0, best))
    is_second = all((column, second, method) in decided for method in order[2:])
    return {best: (1, ""), second: (2 if is_second else 0, "")}

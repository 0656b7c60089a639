"""Which order of a column's rows is decided: the best, the second best, and those that cannot be told from the best.

The best is bold if its difference to every other row is decided, the second is underlined if those to all rows below it
are too. Differences have the intervals of all tables; `report.correction` is made over all that are compared here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from compclip.config.cell import PRETRAINED
from compclip.report import decisions, table_rows, tables
from compclip.report.statistics import Interval
from compclip.report.table_rows import RunsByTraining
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic, Training
from compclip.report.variance_parts import LEVEL


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
    p_values = [decisions.p_value(c.interval) for c in measured if c.interval]
    adjusted = decisions.adjust(p_values, correction)
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
                difference = table_rows.compute_difference(column, runs[order[rank]], runs[lower])
                interval = difference.difference if difference else None
                comparisons.append(OrderComparison(column_index, order[rank], lower, interval, column.lower))
    return comparisons


def _index_row(row: MethodRow, trainings: Collection[Training]) -> RunsByTraining:
    """Return a row's runs by training; the pretrained model stands beside every one of its backbone."""
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

"""The difference of every row to a chosen one, `report.reference`: what each variant of an ablation costs or brings.

Only seeds count that both have; the intervals are those of all differences (`comparison.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from compclip.report import table_heads, table_rows
from compclip.report.tables import Column, MethodRow, ResultTable


def build_contrasts(groups: Sequence[ResultTable], method: str) -> list[ResultTable]:
    """Each table's rows as differences to its row `method`; without rows where it has none.

    A statistic's `mean` is the row's own, over the seeds of both.
    """
    return [_contrast(group, method) for group in groups] if method else []


def _contrast(group: ResultTable, method: str) -> ResultTable:
    base = next((row for row in group.rows if row.method == method), None)
    rows = tuple(_row(row, base, group.columns) for row in group.rows if row is not base) if base else ()
    made = ResultTable(group.backbone, group.data, group.columns, rows)
    return table_rows.remove_marks(made) if table_heads.has_random_weights(made) else made


def _row(row: MethodRow, base: MethodRow, columns: Sequence[Column]) -> MethodRow:
    left, right = ({run.cell.seed: run for run in of_method.runs} for of_method in (row, base))
    shared = tuple(run for seed, run in left.items() if seed in right)
    return MethodRow(
        row.method, shared, tuple(table_rows.compute_difference(column, left, right) for column in columns)
    )

"""The difference of every row to a chosen one, `report.reference`: what each variant of an ablation costs or brings.

Only seeds count that both have; the intervals are those of all differences (`comparison.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from compclip.report import comparison, completeness
from compclip.report.tables import Column, Group, Row


def contrasts(groups: Sequence[Group], method: str) -> list[Group]:
    """Each table's rows as differences to its row `method`; without rows where it has none.

    A statistic's `mean` is the row's own, over the seeds of both.
    """
    return [_contrast(group, method) for group in groups] if method else []


def _contrast(group: Group, method: str) -> Group:
    base = next((row for row in group.rows if row.method == method), None)
    rows = tuple(_row(row, base, group.columns) for row in group.rows if row is not base) if base else ()
    made = Group(group.backbone, group.data, group.columns, rows)
    return comparison.unmarked(made) if completeness.random_start(made) else made


def _row(row: Row, base: Row, columns: Sequence[Column]) -> Row:
    left, right = ({run.cell.seed: run for run in of_method.runs} for of_method in (row, base))
    shared = tuple(run for seed, run in left.items() if seed in right)
    return Row(row.method, shared, tuple(comparison.difference(column, left, right) for column in columns))

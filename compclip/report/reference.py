"""The difference of every row to a chosen one, `report.reference`: what each variant of an ablation costs or brings.

As the difference to the pretrained model, but that both sides were trained: only seeds count that both have, and the
differences of these have an interval of their own, Student's t.
"""

from __future__ import annotations

from collections.abc import Sequence

from compclip.report import claims, crossed, tables
from compclip.report.statistics import DRAWS, mean_std
from compclip.report.tables import Column, Group, Row, Statistic
from compclip.runs.results import FinishedRun


def contrasts(groups: Sequence[Group], method: str, draws: int = DRAWS) -> list[Group]:
    """Each table's rows as differences to its row `method`; without rows where it has none.

    A statistic's `mean` is the row's own, over the seeds of both.
    """
    return [_contrast(group, method, draws) for group in groups] if method else []


def _contrast(group: Group, method: str, draws: int) -> Group:
    base = next((row for row in group.rows if row.method == method), None)
    rows = tuple(_row(row, base, group.columns, draws) for row in group.rows if row is not base) if base else ()
    return Group(group.backbone, group.data, group.columns, rows)


def _row(row: Row, base: Row, columns: Sequence[Column], draws: int) -> Row:
    seeds = {run.cell.seed for run in base.runs}
    mine = tuple(run for run in row.runs if run.cell.seed in seeds)
    return Row(row.method, mine, tuple(statistic(column, mine, base.runs, draws) for column in columns))


def statistic(
    column: Column, mine: Sequence[FinishedRun], base: Sequence[FinishedRun], draws: int = DRAWS
) -> Statistic | None:
    """The difference of two methods' runs in a column, with both intervals; None where no seed of both has it."""
    pairs = claims.pairs({run.cell.seed: run for run in mine}, {run.cell.seed: run for run in base}, column)
    if not pairs:
        return None
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    values = [tables.value(run, column) for run in ours]
    gaps = [own - tables.value(run, column) for own, run in zip(values, theirs, strict=True)]
    change = mean_std(gaps)[0]
    found = tables.difference(column, ours, theirs, change, draws)
    mean, std = mean_std(values)
    return Statistic(
        mean, std, len(pairs), difference=found, change=change, verdict=tables.verdict(found, column),
        by_seed=crossed.interval(gaps, None)[0],
    )  # fmt: skip

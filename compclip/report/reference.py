"""The difference of every row to a chosen one, `report.reference`: what each variant of an ablation costs or brings.

Unlike the pretrained model, both sides were trained. Only seeds count that both have, and the difference has one
interval over seeds and items together, as those of the claims (`crossed.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from compclip.report import claims, crossed, tables
from compclip.report.statistics import mean_std
from compclip.report.tables import Column, Group, Row, Statistic
from compclip.runs.results import FinishedRun


def contrasts(groups: Sequence[Group], method: str) -> list[Group]:
    """Each table's rows as differences to its row `method`; without rows where it has none.

    A statistic's `mean` is the row's own, over the seeds of both.
    """
    return [_contrast(group, method) for group in groups] if method else []


def _contrast(group: Group, method: str) -> Group:
    base = next((row for row in group.rows if row.method == method), None)
    rows = tuple(_row(row, base, group.columns) for row in group.rows if row is not base) if base else ()
    return Group(group.backbone, group.data, group.columns, rows)


def _row(row: Row, base: Row, columns: Sequence[Column]) -> Row:
    seeds = {run.cell.seed for run in base.runs}
    mine = tuple(run for run in row.runs if run.cell.seed in seeds)
    return Row(row.method, mine, tuple(statistic(column, mine, base.runs) for column in columns))


def statistic(column: Column, mine: Sequence[FinishedRun], base: Sequence[FinishedRun]) -> Statistic | None:
    """The difference of two methods' runs in a column with its interval; None where no seed of both has it."""
    pairs = claims.pairs({run.cell.seed: run for run in mine}, {run.cell.seed: run for run in base}, column)
    if not pairs:
        return None
    values = [tables.value(ours, column) for ours, _ in pairs]
    gaps = [own - tables.value(theirs, column) for own, (_, theirs) in zip(values, pairs, strict=True)]
    found, over = crossed.interval(gaps, crossed.parts(column, pairs))
    mean, std = mean_std(values)
    verdict, change = tables.verdict(found, column), mean_std(gaps)[0]
    return Statistic(mean, std, len(pairs), difference=found, change=change, verdict=verdict, over=over)

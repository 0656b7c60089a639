"""The rows of the tables: means over checkpoints, differences to the pretrained model, and ranks.

A difference has the interval of the claims and of the reference table: over seeds and items together (`crossed.py`).
The pretrained model is one model; its scores stand beside every seed of the other method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compclip.config.cell import PRETRAINED
from compclip.report import claims, completeness, crossed, tables
from compclip.report.statistics import mean_std, ranks
from compclip.report.tables import Column, Group, Row, Statistic
from compclip.runs.results import FinishedRun


def groups(runs: Sequence[FinishedRun], columns: Sequence[Column]) -> list[Group]:
    """Make one table for each backbone and data set, in the grid's order."""
    keys = dict.fromkeys((r.cell.backbone, r.cell.data) for r in runs)
    return [_group(backbone, data, runs, tuple(columns)) for backbone, data in keys]


def _group(backbone: str, data: str, runs: Sequence[FinishedRun], columns: tuple[Column, ...]) -> Group:
    base = tables.reference(runs, backbone, data)
    methods: dict[str, list[FinishedRun]] = {PRETRAINED: list(base)} if base else {}
    for run in runs:
        if (run.cell.backbone, run.cell.data) == (backbone, data) and run not in base:
            methods.setdefault(run.cell.method, []).append(run)
    rows = [
        Row(method, tuple(of_method), tuple(statistic(column, of_method, base) for column in columns))
        for method, of_method in methods.items()
    ]
    made = Group(backbone, data, columns, _ranked(rows, columns))
    return unmarked(made) if completeness.random_start(made) else made


def unmarked(group: Group) -> Group:
    """The table without ranks and verdicts: of a random backbone none is better than a pretrained model."""
    rows = (
        replace(row, statistics=tuple(found and replace(found, rank=0, verdict=0) for found in row.statistics))
        for row in group.rows
    )
    return replace(group, rows=tuple(rows))


def statistic(column: Column, runs: Sequence[FinishedRun], base: Sequence[FinishedRun]) -> Statistic | None:
    """Mean and deviation over a method's checkpoints that have the metric, and the difference to the pretrained model.

    None where no run has the metric.
    """
    runs = tables.distinct(run for run in runs if tables.value(run, column) is not None)
    if not runs:
        return None
    mean, std = mean_std([tables.value(run, column) for run in runs])
    if runs[0].cell.method == PRETRAINED or not base:
        return Statistic(mean, std, len(runs))
    by_seed = {run.cell.seed: run for run in runs}
    contrast = difference(column, by_seed, tables.for_seeds(base, by_seed))
    if contrast is None:
        return Statistic(mean, std, len(runs))
    return replace(contrast, mean=mean, std=std, seeds=len(runs))


def difference(column: Column, left: claims.Seeds, right: claims.Seeds) -> Statistic | None:
    """The difference of two methods, seed -> run, with its interval; None where no seed of both has the column.

    `mean` and `std` are those of `left`, over the seeds of both.
    """
    pairs = claims.pairs(left, right, column)
    if not pairs:
        return None
    values = [tables.value(run, column) for run, _ in pairs]
    gaps = [value - tables.value(other, column) for value, (_, other) in zip(values, pairs, strict=True)]
    interval, over = crossed.interval(gaps, crossed.parts(column, pairs))
    mean, std = mean_std(values)
    verdict, change = tables.verdict(interval, column), mean_std(gaps)[0]
    return Statistic(mean, std, len(pairs), difference=interval, change=change, verdict=verdict, over=over)


def _ranked(rows: Sequence[Row], columns: Sequence[Column]) -> tuple[Row, ...]:
    """The rows with best and second best of every column marked, at the precision in which they are shown."""
    statistics = [list(row.statistics) for row in rows]
    for i, column in enumerate(columns):
        if column.score:
            continue
        means = [of_row[i].mean if of_row[i] else None for of_row in statistics]
        for of_row, rank in zip(statistics, ranks(means, column.lower, column.digits + 2), strict=True):
            of_row[i] = of_row[i] and replace(of_row[i], rank=rank)
    return tuple(replace(row, statistics=tuple(of_row)) for row, of_row in zip(rows, statistics, strict=True))

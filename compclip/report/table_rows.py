"""The rows of the tables: means over checkpoints, differences to the pretrained model, and ranks.

A difference has the interval of the claims and of the reference table: over seeds and items together.
The pretrained model is one model; its scores stand beside every seed of the other method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compclip.config.grid import PRETRAINED
from compclip.report import claims, crossed_intervals, table_heads, tables
from compclip.report.statistics import mean_std, rank_values
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic
from compclip.runs.result_files import FinishedRun


def build_tables(runs: Sequence[FinishedRun], columns: Sequence[Column]) -> list[ResultTable]:
    """Make one table for each backbone and data set, in the grid's order."""
    keys = dict.fromkeys((r.cell.backbone, r.cell.data) for r in runs)
    return [_build_table(backbone, data, runs, tuple(columns)) for backbone, data in keys]


def _build_table(backbone: str, data: str, runs: Sequence[FinishedRun], columns: tuple[Column, ...]) -> ResultTable:
    base = tables.select_pretrained_runs(runs, backbone, data)
    methods: dict[str, list[FinishedRun]] = {PRETRAINED: list(base)} if base else {}
    for run in runs:
        if (run.cell.backbone, run.cell.data) == (backbone, data) and run not in base:
            methods.setdefault(run.cell.method, []).append(run)
    rows = [
        MethodRow(method, tuple(of_method), tuple(compute_statistic(column, of_method, base) for column in columns))
        for method, of_method in methods.items()
    ]
    table = ResultTable(backbone, data, columns, _rank_rows(rows, columns))
    return remove_marks(table) if table_heads.has_random_weights(table) else table


def remove_marks(group: ResultTable) -> ResultTable:
    """Return the table without ranks and verdicts: of a random backbone none is better than a pretrained model."""
    rows = (
        replace(
            row, statistics=tuple(statistic and replace(statistic, rank=0, verdict=0) for statistic in row.statistics)
        )
        for row in group.rows
    )
    return replace(group, rows=tuple(rows))


def compute_statistic(column: Column, runs: Sequence[FinishedRun], base: Sequence[FinishedRun]) -> Statistic | None:
    """Compute mean and deviation over a method's checkpoints, and the difference to the pretrained model.

    None where no run has the metric.
    """
    runs = tables.distinct_runs(run for run in runs if tables.column_value(run, column) is not None)
    if not runs:
        return None
    mean, std = mean_std([tables.required_value(run, column) for run in runs])
    if runs[0].cell.method == PRETRAINED or not base:
        return Statistic(mean, std, len(runs))
    by_seed = {run.cell.seed: run for run in runs}
    contrast = compute_difference(column, by_seed, tables.repeat_for_seeds(base, by_seed))
    if contrast is None:
        return Statistic(mean, std, len(runs))
    return replace(contrast, mean=mean, std=std, seeds=len(runs))


def compute_difference(column: Column, left: claims.RunsBySeed, right: claims.RunsBySeed) -> Statistic | None:
    """Compute the difference of two methods, seed -> run, with its interval; None where no seed of both has the column.

    `mean` and `std` are those of `left`, over the seeds of both.
    """
    pairs = claims.pair_runs(left, right, column)
    if not pairs:
        return None
    values = [tables.required_value(run, column) for run, _ in pairs]
    gaps = [
        value - tables.required_value(right_run, column) for value, (_, right_run) in zip(values, pairs, strict=True)
    ]
    interval, basis = crossed_intervals.compute_interval(
        gaps, crossed_intervals.collect_item_differences(column, pairs)
    )
    mean, std = mean_std(values)
    verdict, change = tables.judge_difference(interval, column), mean_std(gaps)[0]
    return Statistic(mean, std, len(pairs), difference=interval, change=change, verdict=verdict, basis=basis)


def _rank_rows(rows: Sequence[MethodRow], columns: Sequence[Column]) -> tuple[MethodRow, ...]:
    """Mark best and second best of every column, at the precision in which they are shown."""
    statistics = [list(row.statistics) for row in rows]
    for i, column in enumerate(columns):
        if column.score:
            continue
        cells = [of_row[i] for of_row in statistics]
        ranks = rank_values([cell.mean if cell else None for cell in cells], column.lower, column.digits + 2)
        for of_row, cell, rank in zip(statistics, cells, ranks, strict=True):
            of_row[i] = cell and replace(cell, rank=rank)
    return tuple(replace(row, statistics=tuple(of_row)) for row, of_row in zip(rows, statistics, strict=True))


def build_contrasts(groups: Sequence[ResultTable], method: str) -> list[ResultTable]:
    """Build each table's rows as differences to its row `method`; without rows where it has none.

    A statistic's `mean` is the row's own, over the seeds of both.
    """
    return [_build_contrast(group, method) for group in groups] if method else []


def _build_contrast(group: ResultTable, method: str) -> ResultTable:
    base = next((row for row in group.rows if row.method == method), None)
    rows = tuple(_build_contrast_row(row, base, group.columns) for row in group.rows if row is not base) if base else ()
    table = ResultTable(group.backbone, group.data, group.columns, rows)
    return remove_marks(table) if table_heads.has_random_weights(table) else table


def _build_contrast_row(row: MethodRow, base: MethodRow, columns: Sequence[Column]) -> MethodRow:
    left, right = ({run.cell.seed: run for run in of_method.runs} for of_method in (row, base))
    shared = tuple(run for seed, run in left.items() if seed in right)
    return MethodRow(row.method, shared, tuple(compute_difference(column, left, right) for column in columns))

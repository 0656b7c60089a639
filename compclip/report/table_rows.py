"""The rows of the tables: means over checkpoints, differences to the pretrained model or another method, and ranks.

A difference has the interval of the claims and of the reference table: over seeds and items together.
The pretrained model is one model; its scores stand beside every seed of the other method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compclip.config.cell import PRETRAINED
from compclip.report import statistics, table_heads, tables
from compclip.report.statistics import Interval, ItemDifferences, mean_std
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic
from compclip.runs.item_outcomes import Items
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.result_files import FinishedRun

RunsBySeed = Mapping[int, FinishedRun]  # a method's runs by seed
RunPair = tuple[FinishedRun, FinishedRun]  # of one seed


def build_tables(
    runs: Sequence[FinishedRun], columns: Sequence[Column], split: PictureSplit | None = None
) -> list[ResultTable]:
    """Make one table for each backbone and data set, in the grid's order; `runs` have the items of `split` alone."""
    split = split or PictureSplit()
    built = []
    for backbone, data in dict.fromkeys((r.cell.backbone, r.cell.data) for r in runs):
        base = tables.select_pretrained_runs(runs, backbone, data)
        methods: dict[str, list[FinishedRun]] = {PRETRAINED: list(base)} if base else {}
        for run in runs:
            if (run.cell.backbone, run.cell.data) == (backbone, data) and run not in base:
                methods.setdefault(run.cell.method, []).append(run)
        rows = [
            MethodRow(method, tuple(of_method), tuple(compute_statistic(column, of_method, base) for column in columns))
            for method, of_method in methods.items()
        ]
        built.append(unmark_random(ResultTable(backbone, data, tuple(columns), _rank_rows(rows, columns), split)))
    return built


def unmark_random(group: ResultTable) -> ResultTable:
    """Drop ranks and verdicts where the backbone's weights are random: none is better than a pretrained model."""
    if not table_heads.has_random_weights(group):
        return group
    rows = []
    for row in group.rows:
        statistics_of_row = (cell and replace(cell, rank=0, verdict=0) for cell in row.statistics)
        rows.append(replace(row, statistics=tuple(statistics_of_row)))
    return replace(group, rows=tuple(rows))


def compute_statistic(column: Column, runs: Sequence[FinishedRun], base: Sequence[FinishedRun]) -> Statistic | None:
    """Compute mean and deviation over a method's checkpoints, and the difference to the pretrained model.

    None where no run has the metric.
    """
    checkpoints: dict[str, FinishedRun] = {}  # one that stands under two seeds is one
    for run in runs:
        if tables.column_value(run, column) is not None:
            checkpoints.setdefault(run.identity, run)
    if not checkpoints:
        return None
    mean, std = mean_std([tables.required_value(run, column) for run in checkpoints.values()])
    by_seed = {run.cell.seed: run for run in checkpoints.values()}
    contrast = None
    if base and runs[0].cell.method != PRETRAINED:
        contrast = compute_difference(column, by_seed, tables.repeat_for_seeds(base, by_seed))
    return replace(contrast or Statistic(0, None, 0), mean=mean, std=std, seeds=len(checkpoints))


def compute_difference(column: Column, left: RunsBySeed, right: RunsBySeed) -> Statistic | None:
    """Compute the difference of two methods, seed -> run, with its interval; None where no seed of both has the column.

    `mean` and `std` are those of `left`, over the seeds of both.
    """
    pairs = pair_runs(left, right, column)
    if not pairs:
        return None
    mean, std = mean_std([tables.required_value(run, column) for run, _ in pairs])
    gaps, interval, basis = compare_pairs(pairs, column)
    verdict = 0  # of a column of which neither more nor less is better, or where the interval holds 0
    if interval and not column.score:
        verdict = -interval.sign if column.lower else interval.sign
    return Statistic(mean, std, len(pairs), 0, interval, mean_std(gaps)[0], verdict, basis)


def pair_runs(left: RunsBySeed, right: RunsBySeed, column: Column) -> list[RunPair]:
    """Pair the runs of two methods, seed -> run, of each seed that both have with the column.

    Two seeds of the same two checkpoints are one pair.
    """
    both = [(left[seed], right[seed]) for seed in sorted(left.keys() & right.keys())]
    scored = [pair for pair in both if all(tables.column_value(run, column) is not None for run in pair)]
    return list({(a.identity, b.identity): (a, b) for a, b in scored}.values())


def compare_pairs(pairs: Sequence[RunPair], column: Column) -> tuple[list[float], Interval | None, str]:
    """Return left - right of each pair, the interval of their mean, and what that is over."""
    gaps = [tables.required_value(left, column) - tables.required_value(right, column) for left, right in pairs]
    return gaps, *statistics.compute_interval(gaps, collect_item_differences(column, pairs))


def collect_item_differences(
    column: Column, pairs: Sequence[RunPair], weight: float = 1.0
) -> list[ItemDifferences] | None:
    """Collect the metrics whose weighted means are the column, by the rules of `tables.column_value`.

    None where one of them keeps no items, or those of a single picture.
    """
    members = column.members or tables.mean_members(column, [left for left, _ in pairs])
    if members:
        differences: list[ItemDifferences] = []
        for member in members:
            of_member = collect_item_differences(member, pairs, weight / len(members))
            if not of_member:
                return None
            differences += of_member
        return differences
    gaps = []
    for left, right in pairs:
        left_items, right_items = _find_items(left, column), _find_items(right, column)
        if left_items is None or right_items is None:
            return None
        gaps.append(statistics.subtract_items(left_items, right_items))
    shared, gap_SI = statistics.align_items(gaps)
    units = statistics.item_units(shared)
    return [ItemDifferences(column.benchmark, weight, shared.ids, gap_SI, units)] if len(set(units)) > 1 else None


def _find_items(run: FinishedRun, column: Column) -> Items | None:
    """Return the outcomes of a measured metric; None for a run that keeps none."""
    result = run.results.get(column.benchmark)
    return result.items.get(column.metric) if result else None


def _rank_rows(rows: Sequence[MethodRow], columns: Sequence[Column]) -> tuple[MethodRow, ...]:
    """Mark best and second best of every column, at the precision in which they are shown."""
    statistics_by_row = [list(row.statistics) for row in rows]
    for i, column in enumerate(columns):
        if column.score:
            continue
        cells = [of_row[i] for of_row in statistics_by_row]
        ranks = statistics.rank_values([cell.mean if cell else None for cell in cells], column.lower, column.digits + 2)
        for of_row, cell, rank in zip(statistics_by_row, cells, ranks, strict=True):
            of_row[i] = cell and replace(cell, rank=rank)
    return tuple(replace(row, statistics=tuple(of_row)) for row, of_row in zip(rows, statistics_by_row, strict=True))


def build_contrasts(groups: Sequence[ResultTable], method: str) -> list[ResultTable]:
    """Build each table's rows as differences to its row `method`; without rows where it has none.

    A statistic's `mean` is the row's own, over the seeds of both.
    """
    contrasts = []
    for group in groups if method else ():
        base = next((row for row in group.rows if row.method == method), None)
        right = {run.cell.seed: run for run in base.runs} if base else {}
        rows = []
        for row in group.rows if base else ():
            if row is not base:
                left = {run.cell.seed: run for run in row.runs}
                shared = tuple(run for seed, run in left.items() if seed in right)
                differences = tuple(compute_difference(column, left, right) for column in group.columns)
                rows.append(MethodRow(row.method, shared, differences))
        contrasts.append(unmark_random(replace(group, rows=tuple(rows))))
    return contrasts

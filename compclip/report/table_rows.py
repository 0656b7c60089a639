"""The rows of the tables: means over checkpoints, differences to the pretrained model or another method, and ranks.

A difference has the interval of the claims and of the reference table: over seeds and items together, and over
backbones too where these are declared as versions of one.
The pretrained model is one model; its scores stand beside every seed of the other method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compclip.config.cell import PRETRAINED
from compclip.report import statistics, table_heads, tables
from compclip.report.statistics import Interval, ItemDifferences, mean_std
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic, Training
from compclip.runs.item_outcomes import Items
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.result_files import FinishedRun

RunsByTraining = Mapping[Training, FinishedRun]  # a method's runs by backbone and seed
Versions = Mapping[str, Sequence[str]]  # groups of backbones that are versions of one, by the group's name
RunPair = tuple[FinishedRun, FinishedRun]  # of one backbone and seed


def build_tables(
    runs: Sequence[FinishedRun],
    columns: Sequence[Column],
    split: PictureSplit | None = None,
    versions: Versions | None = None,
) -> list[ResultTable]:
    """Make one table for each backbone and data set, in the grid's order; `runs` have the items of `split` alone.

    Backbones that `versions` declares as versions of one have one table together.
    """
    group_of = {backbone: name for name, members in (versions or {}).items() for backbone in members}
    places = dict.fromkeys((group_of.get(r.cell.backbone, str(r.cell.backbone)), str(r.cell.data)) for r in runs)
    built = []
    for backbone, data in places:
        table = ResultTable(backbone, data, tuple(columns), (), split or PictureSplit())
        table = replace(table, versions=tuple((versions or {}).get(backbone, ())))
        built.append(unmark_random(replace(table, rows=_build_rows(table, runs))))
    return built


def build_version_tables(
    runs: Sequence[FinishedRun], columns: Sequence[Column], split: PictureSplit, versions: Versions
) -> list[ResultTable]:
    """Make a table for each version by itself; none without versions."""
    members = {backbone for backbones in versions.values() for backbone in backbones}
    return build_tables([run for run in runs if run.cell.backbone in members], columns, split)


def _build_rows(table: ResultTable, runs: Sequence[FinishedRun]) -> tuple[MethodRow, ...]:
    base = tables.select_pretrained_runs(runs, table.backbones, table.data)
    methods: dict[str, list[FinishedRun]] = {PRETRAINED: list(base)} if base else {}
    for run in runs:
        if table.holds(run.cell) and run not in base:
            methods.setdefault(run.cell.method, []).append(run)
    rows = [
        MethodRow(method, tuple(of_row), tuple(compute_statistic(column, of_row, base) for column in table.columns))
        for method, of_row in methods.items()
    ]
    return _rank_rows(rows, table.columns)


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
    by_training = tables.index_runs(checkpoints.values())
    contrast = None
    if base and runs[0].cell.method != PRETRAINED:
        contrast = compute_difference(column, by_training, tables.repeat_pretrained(base, by_training))
    backbones = len({training[0] for training in by_training})
    return replace(contrast or Statistic(0, None, 0), mean=mean, std=std, seeds=len(checkpoints), backbones=backbones)


def compute_difference(column: Column, left: RunsByTraining, right: RunsByTraining) -> Statistic | None:
    """Compute the difference of two methods' runs with its interval; None where no training of both has the column.

    `mean` and `std` are those of `left`, over the trainings of both.
    """
    pairs = pair_runs(left, right, column)
    if not pairs:
        return None
    mean, std = mean_std([tables.required_value(run, column) for run, _ in pairs])
    gaps, interval, basis = compare_pairs(pairs, column)
    verdict = 0  # of a column of which neither more nor less is better, or where the interval holds 0
    if interval and not column.score:
        verdict = -interval.sign if column.lower else interval.sign
    backbones = len({run.cell.backbone for run, _ in pairs})
    change = mean_std(gaps)[0]
    return Statistic(mean, std, len(pairs), 0, interval, change, verdict, basis, backbones=backbones)


def pair_runs(left: RunsByTraining, right: RunsByTraining, column: Column) -> list[RunPair]:
    """Pair the runs of two methods, backbone by backbone, of each seed that both have with the column.

    Two seeds of the same two checkpoints are one pair. Of several backbones only the seeds that all of them have.
    """
    scored = {}
    for training in sorted(left.keys() & right.keys()):
        pair = left[training], right[training]
        if all(tables.column_value(run, column) is not None for run in pair):
            scored[pair[0].identity, pair[1].identity] = (training, pair)
    by_backbone: dict[str, dict[int, RunPair]] = {}
    for (backbone, seed), pair in scored.values():
        by_backbone.setdefault(backbone, {})[seed] = pair
    shared = set.intersection(*map(set, by_backbone.values())) if by_backbone else set()
    return [pair for of_backbone in by_backbone.values() for seed, pair in of_backbone.items() if seed in shared]


def compare_pairs(pairs: Sequence[RunPair], column: Column) -> tuple[list[float], Interval | None, str]:
    """Return left - right of each pair, as `pair_runs` has them, the interval of their mean, and what that is over."""
    backbones = len({left.cell.backbone for left, _ in pairs})
    gaps = [tables.required_value(left, column) - tables.required_value(right, column) for left, right in pairs]
    return gaps, *statistics.compute_interval(gaps, collect_item_differences(column, pairs), backbones)


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
        right = tables.index_runs(base.runs) if base else {}
        rows = []
        for row in group.rows if base else ():
            if row is not base:
                left = tables.index_runs(row.runs)
                shared = tuple(run for training, run in left.items() if training in right)
                differences = tuple(compute_difference(column, left, right) for column in group.columns)
                rows.append(MethodRow(row.method, shared, differences))
        contrasts.append(unmark_random(replace(group, rows=tuple(rows))))
    return contrasts

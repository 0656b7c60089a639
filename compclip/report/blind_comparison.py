"""What of a score remains without the picture: blind rows, the part above them, and the score on sighted items.

A blind row scores texts alone (`results/_blind/<data>/<row>/`, the stage `blind`). Above is a method's score minus that
of the column's best blind row. Sighted items are those that every blind row gets wrong or ties on; the score there is a
mean as the column's own. Both have the interval over seeds and items of all differences. Only shares of which more is
better are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from compclip.base.safe_names import SafeName
from compclip.config.cell import PRETRAINED, Cell
from compclip.report import tables
from compclip.report.escape import format_csv
from compclip.report.tables import Column, MethodRow, ResultTable, RunsBySeed, Statistic
from compclip.runs import result_files, run_folder
from compclip.runs.item_outcomes import Items
from compclip.runs.picture_splits import select_items
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import Trained

PREFIX = "blind."  # before a row's name, where methods stand
FIELDS = (
    "backbone", "data", "method", "benchmark", "metric", "seeds", "mean", "blind", "blind_mean",
    "above", "above_low", "above_high", "above_over",
    "sighted", "sighted_low", "sighted_high", "sighted_over", "sighted_items",
    "gain", "gain_low", "gain_high", "gain_over",
)  # fmt: skip


@dataclass(frozen=True)
class BlindTable:
    """The blind rows of a table, and its methods beside them.

    `rows` have the table's own columns; `best` names each compared column's best row. `above` are differences to that.
    `sighted` are scores on sighted items, whose `difference` is the score's own interval; `gains` are the differences
    there to the pretrained model.
    """

    rows: tuple[MethodRow, ...]
    best: Mapping[Column, str]
    above: ResultTable
    sighted: ResultTable
    gains: ResultTable


def read_blind_runs(root: Path, data: Iterable[str], benchmarks: Sequence[str]) -> dict[str, list[FinishedRun]]:
    """Read the blind rows of each data set; a benchmark that was not scored blind is absent, as are all rows of none.

    Raises UserError for a damaged file.
    """
    runs: dict[str, list[FinishedRun]] = {}
    for name in dict.fromkeys(data):
        folder = run_folder.blind_folder(root, SafeName(name, "data"))
        for path in sorted(folder.glob("*/")) if folder.is_dir() else ():
            results = {r.benchmark: r for r in map(result_files.read_result, run_folder.result_paths(path))}
            scored = {benchmark: results[benchmark] for benchmark in benchmarks if benchmark in results}
            cell = Cell(f"{PREFIX}{path.name}", "none", name, 0)
            if scored:
                runs.setdefault(name, []).append(FinishedRun(Trained(path), path, cell, {}, [], {}, scored))
    return runs


def build_blind_table(group: ResultTable, blind: Sequence[FinishedRun]) -> BlindTable | None:
    """Compare a table's methods with blind rows; None without any, or without a column to compare."""
    columns = tuple(c for c in group.columns if is_compared(c, blind))
    if not columns:
        return None
    base = next((row.runs for row in group.rows if row.method == PRETRAINED), ())
    sighted_base = [select_sighted(run, blind) for run in base]
    compared = replace(group, columns=columns)
    above = []
    sighted = []
    gains = []
    for row in group.rows:
        trainings = tables.index_runs(row.runs)
        on_sighted = {training: select_sighted(run, blind) for training, run in trainings.items()}
        above.append(replace(row, statistics=tuple(compute_above(c, trainings, blind) for c in columns)))
        sighted.append(replace(row, statistics=tuple(compute_score(c, on_sighted) for c in columns)))
        of_row = (tables.compute_statistic(c, list(on_sighted.values()), sighted_base) for c in columns)
        gains.append(replace(row, statistics=tuple(of_row)))
    above_table, sighted_table, gain_table = (replace(compared, rows=tuple(p)) for p in (above, sighted, gains))
    matched = [match_items(run, group.rows[0].runs[0]) for run in blind]
    best = {c: find_best(c, matched).cell.method for c in columns}
    rows = make_blind_rows(group, blind)
    return BlindTable(rows, best, above_table, sighted_table, tables.unmark_random(gain_table))


def make_blind_rows(group: ResultTable, blind: Sequence[FinishedRun]) -> tuple[MethodRow, ...]:
    """Make a row of a table's columns for each blind row; a cosine has no number there."""
    return tuple(
        MethodRow(run.cell.method, (run,), tuple(_make_blind_statistic(column, run) for column in group.columns))
        for run in blind
    )


def is_compared(column: Column, blind: Sequence[FinishedRun]) -> bool:
    """Return whether a column is a share of which more is better, and some blind row has it."""
    return not (column.score or column.lower) and any(tables.column_value(run, column) is not None for run in blind)


def _make_blind_statistic(column: Column, run: FinishedRun) -> Statistic | None:
    value = None if column.score else tables.column_value(run, column)
    return None if value is None else Statistic(value, None, 1)


def find_best(column: Column, blind: Sequence[FinishedRun]) -> FinishedRun:
    """Return the blind row with the highest number in a column that one of them has."""
    return max(blind, key=lambda run: -1.0 if (v := tables.column_value(run, column)) is None else v)


def compute_above(column: Column, runs: RunsBySeed, blind: Sequence[FinishedRun]) -> Statistic | None:
    """Compute the difference of a method's runs to the best blind row, on the items that each run has."""
    if not runs:
        return None
    matched = [match_items(run, next(iter(runs.values()))) for run in blind]
    if not is_compared(column, matched):
        return None
    best = blind[matched.index(find_best(column, matched))]
    return tables.compute_difference(column, runs, {t: match_items(best, run) for t, run in runs.items()})


def compute_score(column: Column, runs: RunsBySeed) -> Statistic | None:
    """Compute a method's own number with its interval: its difference to a row that gets nothing right.

    The interval of a share ends at 0 and 1.
    """
    score = tables.compute_difference(column, runs, {t: _get_nothing(run) for t, run in runs.items()})
    if score is None or score.difference is None or column.score:
        return score
    interval = replace(score.difference, low=max(score.difference.low, 0.0), high=min(score.difference.high, 1.0))
    return replace(score, difference=interval, verdict=0)


# --- runs of selected items ------------------------------------------------------------------------------------


def select_sighted(run: FinishedRun, blind: Sequence[FinishedRun]) -> FinishedRun:
    """Return a run with the items alone that every blind row gets wrong or ties on; without what no row was scored on.

    Where an item is missing in a blind row it is not sighted.
    """

    def choose(benchmark: str, metric: str) -> frozenset[str] | None:
        items_of_rows = filter(None, (_find_items(row, benchmark, metric) for row in blind))
        wrong_ids = [_wrong_ids(items) for items in items_of_rows]
        return frozenset.intersection(*wrong_ids) if wrong_ids else None

    return select_items(run, choose)


def match_items(blind_run: FinishedRun, run: FinishedRun) -> FinishedRun:
    """Return a blind row with the items alone that a run has; pictures that are missing are missing for both."""

    def choose(benchmark: str, metric: str) -> frozenset[str] | None:
        items = _find_items(run, benchmark, metric)
        return None if items is None else frozenset(items.ids)

    for name, result in blind_run.results.items():
        for metric, items in result.items.items():
            run_items = _find_items(run, name, metric)
            if run_items is None or run_items.ids != items.ids:
                return select_items(blind_run, choose)
    return blind_run


def _find_items(run: FinishedRun, benchmark: str, metric: str) -> Items | None:
    result = run.results.get(benchmark)
    return result.items.get(metric) if result else None


def _wrong_ids(items: Items) -> frozenset[str]:
    return frozenset(items.ids[index] for index in np.flatnonzero(items.values == 0))


def _get_nothing(run: FinishedRun) -> FinishedRun:
    """Return the same items, all wrong."""
    results = {
        name: replace(
            result,
            metrics=dict.fromkeys(result.metrics, 0.0),
            items={metric: replace(items, values=np.zeros(len(items.ids))) for metric, items in result.items.items()},
        )
        for name, result in run.results.items()
    }
    return replace(run, results=results)


# --- as text --------------------------------------------------------------------------------------------------


def format_blind_csv(groups: Sequence[ResultTable], blind: Mapping[str, BlindTable]) -> str:
    """Format one line for each row and column, in the metrics' own unit; the head alone without blind rows."""
    lines = []
    for group in groups:
        table = blind.get(group.name)
        if not table:
            continue
        for row, column, statistic in replace(group, rows=table.rows).numbers():
            cells = [group.backbone, group.data, row.method, column.benchmark, column.metric, 1, statistic.mean]
            lines.append(cells + [""] * (len(FIELDS) - len(cells)))
        lines += _method_lines(group, table)
    return format_csv([FIELDS, *lines])


def _method_lines(group: ResultTable, table: BlindTable) -> list[list[object]]:
    lines = []
    for above_row, sighted_row, gain_row in zip(table.above.rows, table.sighted.rows, table.gains.rows, strict=True):
        for i, column in enumerate(table.above.columns):
            above, sighted, gain = (row.statistics[i] for row in (above_row, sighted_row, gain_row))
            if above is None:
                continue
            values = [
                group.backbone, group.data, above_row.method, column.benchmark, column.metric, above.seeds,
                above.mean, table.best[column], above.mean - (above.change or 0.0),
                above.change, *_interval_values(above),
                sighted and sighted.mean, *_interval_values(sighted), sighted and _count_items(sighted),
                gain and gain.change, *_interval_values(gain),
            ]  # fmt: skip
            lines.append(values)
    return lines


def _interval_values(statistic: Statistic | None) -> tuple[object, ...]:
    gap = statistic.difference if statistic else None
    return (gap.low, gap.high, statistic.basis) if gap and statistic else (None, None, None)


def _count_items(statistic: Statistic) -> int | None:
    return statistic.difference.items if statistic.difference else None

"""What of a score remains without the picture: blind rows, and the score on sighted items.

A blind row scores texts alone (`results/_blind/<data>/<row>/`, the stage `blind`). Sighted items are those that every
blind row gets wrong or ties on; the score there is a mean as the column's own, with the interval over seeds and items
of all differences. Only shares of which more is better are compared.
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
from compclip.runs.picture_splits import select_items
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import Trained

PREFIX = "blind."  # before a row's name, where methods stand
FIELDS = (
    "backbone", "data", "method", "benchmark", "metric", "seeds", "mean",
    "sighted", "sighted_low", "sighted_high", "sighted_over", "sighted_items",
    "gain", "gain_low", "gain_high", "gain_over",
)  # fmt: skip


@dataclass(frozen=True)
class BlindTable:
    """A table's methods on sighted items.

    `sighted` are scores, whose `difference` is the score's own interval; `gains` are the differences there to the
    pretrained model.
    """

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
    """Compare a table's methods on sighted items; None without blind rows, or without a column to compare."""
    columns = tuple(c for c in group.columns if is_compared(c, blind))
    if not columns:
        return None
    base = next((row.runs for row in group.rows if row.method == PRETRAINED), ())
    sighted_base = [select_sighted(run, blind) for run in base]
    sighted = []
    gains = []
    for row in group.rows:
        runs = [select_sighted(run, blind) for run in row.runs]
        by_seed = tables.index_runs(runs)
        scores = {column: compute_score(column, by_seed) for column in columns}
        differences = {column: tables.compute_statistic(column, runs, sighted_base) for column in columns}
        sighted.append(replace(row, statistics=tables.drop_missing(scores)))
        gains.append(replace(row, statistics=tables.drop_missing(differences)))
    compared = replace(group, columns=columns)
    gain_table = tables.unmark_random(replace(compared, rows=tuple(gains)))
    return BlindTable(replace(compared, rows=tuple(sighted)), gain_table)


def make_blind_rows(group: ResultTable, blind: Sequence[FinishedRun]) -> tuple[MethodRow, ...]:
    """Make a row of a table's columns for each blind row; a cosine has no number there."""
    rows = []
    for run in blind:
        statistics = {}
        for column in group.columns:
            value = None if column.score else tables.column_value(run, column)
            if value is not None:
                statistics[column] = Statistic(value, None, 1)
        rows.append(MethodRow(run.cell.method, (run,), statistics))
    return tuple(rows)


def is_compared(column: Column, blind: Sequence[FinishedRun]) -> bool:
    """Return whether a column is a share of which more is better, and some blind row has it."""
    return not (column.score or column.lower) and any(tables.column_value(run, column) is not None for run in blind)


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
        wrong_ids = []
        for row in blind:
            items = row.results[benchmark].items.get(metric) if benchmark in row.results else None
            if items:
                wrong_ids.append(frozenset(items.ids[index] for index in np.flatnonzero(items.values == 0)))
        return frozenset.intersection(*wrong_ids) if wrong_ids else None

    return select_items(run, choose)


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


def format_blind_csv(
    groups: Sequence[ResultTable], blind: Mapping[str, BlindTable], rows: Mapping[str, Sequence[MethodRow]]
) -> str:
    """Format a line for each row and column, in the metrics' own unit; the head alone without blind rows."""
    lines: list[Sequence[object]] = []
    for group in groups:
        table = blind.get(group.name)
        if not table:
            continue
        for row, column, statistic in replace(group, rows=tuple(rows[group.name])).numbers():
            cells = (group.backbone, group.data, row.method, column.benchmark, column.metric, 1, statistic.mean)
            lines.append(cells + ("",) * (len(FIELDS) - len(cells)))
        sighted = {row.method: row.statistics for row in table.sighted.rows}
        gains = {row.method: row.statistics for row in table.gains.rows}
        for row, column, statistic in group.numbers():
            if column in table.sighted.columns:
                score = sighted[row.method].get(column)
                gain = gains[row.method].get(column)
                items = score.difference.items if score and score.difference else None
                lines.append((
                    group.backbone, group.data, row.method, column.benchmark, column.metric,
                    statistic.seeds, statistic.mean, score and score.mean, *_interval_values(score), items,
                    gain and gain.change, *_interval_values(gain),
                ))  # fmt: skip
    return format_csv([FIELDS, *lines])


def _interval_values(statistic: Statistic | None) -> tuple[object, ...]:
    gap = statistic.difference if statistic else None
    return (gap.low, gap.high, statistic.basis) if gap and statistic else (None, None, None)

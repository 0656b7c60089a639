"""What of a score remains without the picture: blind rows, and the score on sighted items.

A blind row scores texts alone (`results/_blind/<data>/<row>/`, the stage `blind`). Sighted items are those that every
blind row gets wrong or ties on; the score there is a mean as the column's own, with the interval over seeds and items
of all differences. Only shares of which more is better are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path

import numpy as np

from compclip.base.safe_names import SafeName
from compclip.config.cell import PRETRAINED, Cell
from compclip.report import run_details, tables
from compclip.report.escape import format_csv
from compclip.report.table_formats import list_difference
from compclip.report.tables import NO_PRIORS, Column, MethodRow, Priors, ResultTable, RunsBySeed, Statistic
from compclip.runs import run_folder
from compclip.runs.picture_splits import PictureSplit, select_items
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


def read_blind_runs(
    root: Path, data: Iterable[str], benchmarks: Sequence[str], split: PictureSplit | None = None
) -> dict[str, list[FinishedRun]]:
    """Read the blind rows of each data set; a benchmark that was not scored blind is absent, as are all rows of none.

    They have the items of `split` alone. Raises UserError for a damaged file.
    """
    runs: dict[str, list[FinishedRun]] = {}
    for name in dict.fromkeys(data):
        folder = run_folder.blind_folder(root, SafeName(name, "data"))
        for path in sorted(folder.glob("*/")):
            results = run_details.read_results(path, benchmarks)
            cell = Cell(f"{PREFIX}{path.name}", "none", name, 0)
            if results:
                run = FinishedRun(Trained(path), path, cell, {}, [], {}, results)
                runs.setdefault(name, []).append(split.select(run) if split else run)
    return runs


def build_blind_table(group: ResultTable, blind: Sequence[FinishedRun]) -> BlindTable | None:
    """Compare a table's methods on sighted items; None without blind rows, or without a column to compare."""
    columns = tuple(c for c in group.columns if is_compared(c, blind))
    if not columns:
        return None
    sighted_runs = {row.method: [select_sighted(run, blind) for run in row.runs] for row in group.rows}
    base = sighted_runs.get(PRETRAINED, [])
    priors = tables.estimate_priors(columns, [tables.index_runs(runs) for runs in sighted_runs.values()])
    scores = {}
    gains = {}
    for method, runs in sighted_runs.items():
        score = partial(compute_score, runs=tables.index_runs(runs), priors=priors)
        scores[method] = tables.compute_columns(columns, score)
        gain = partial(tables.compute_statistic, runs=runs, base=base, priors=priors)
        gains[method] = tables.compute_columns(columns, gain)
    compared = replace(group, columns=columns)
    return BlindTable(compared.with_statistics(scores), tables.unmark_random(compared.with_statistics(gains)))


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


def compute_score(column: Column, runs: RunsBySeed, priors: Priors = NO_PRIORS) -> Statistic | None:
    """Compute a method's own number with its interval: its difference to a row that gets nothing right.

    The interval of a share ends at 0 and 1.
    """
    score = tables.compute_difference(column, runs, tables.index_runs(map(_get_nothing, runs.values())), priors)
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
                wrong_ids.append(frozenset(compress(items.ids, items.values == 0)))
        return frozenset.intersection(*wrong_ids) if wrong_ids else None

    return select_items(run, choose)


def _get_nothing(run: FinishedRun) -> FinishedRun:
    """Return the same items, all wrong, as a model that is the same under every seed."""
    results = {}
    for name, result in run.results.items():
        items = {metric: replace(i, values=np.zeros(len(i.ids))) for metric, i in result.items.items()}
        results[name] = replace(result, metrics=dict.fromkeys(result.metrics, 0.0), items=items)
    return replace(run, cell=Cell(PRETRAINED, *run.cell[1:]), results=results)


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
        sighted = table.sighted.by_method
        gains = table.gains.by_method
        for row, column, statistic in group.numbers():
            if column in table.sighted.columns:
                score = sighted[row.method].statistics.get(column)
                gain = gains[row.method].statistics.get(column)
                _, *score_interval, _ = list_difference(score)
                change, *gain_interval, _, _ = list_difference(gain)
                lines.append((
                    group.backbone, group.data, row.method, column.benchmark, column.metric,
                    statistic.seeds, statistic.mean, score and score.mean, *score_interval,
                    change, *gain_interval,
                ))  # fmt: skip
    return format_csv([FIELDS, *lines])

"""One number a benchmark, as the report has it, and the best cell of the grid by each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compclip.report import tables
from compclip.report.tables import SUMMARY, Column
from compclip.runs.result_files import FinishedRun

ScoredRun = tuple[FinishedRun, Mapping[str, float]]  # a run and its `numbers`


def select_columns(runs: Sequence[FinishedRun], column_names: Sequence[str]) -> tuple[Column, ...]:
    """Select the report's columns that some run has; without `wanted`, every metric that is no detail of another."""
    benchmarks = list(dict.fromkeys(b for run in runs for b in run.results))
    every_column = {c.name: c for c in tables.list_columns(runs, benchmarks)}
    available = [name for name in column_names if tables.resolve_column(name, every_column)]
    return tables.select_columns(runs, available, benchmarks)


def compute_headlines(run: FinishedRun, columns: Sequence[Column]) -> dict[str, float]:
    """Compute comp, zs, i2t and t2i of the report's summary, then one number for each benchmark by its name."""
    summary = tables.summary_columns(columns, [run])
    headlines = {c.metric.lower(): tables.column_value(run, c) for c in summary}
    headlines |= {name: tables.column_value(run, _headline_column(name, run, summary)) for name in run.results}
    return {name: value for name, value in headlines.items() if value is not None}


def compute_means(run: FinishedRun, columns: Sequence[Column]) -> dict[str, float]:
    """Compute the shown columns that no result file has, since they are means of others, by <benchmark>/<metric>."""
    means = {c.name: tables.column_value(run, c) for c in columns if c.members}
    return {name: value for name, value in means.items() if value is not None}


def _headline_column(benchmark: str, run: FinishedRun, summary: Sequence[Column]) -> Column:
    """Return the whole-benchmark column: the report's part of Comp or ZS, else the benchmark's headline."""
    report_columns = [
        column for c in summary if c.metric in ("Comp", "ZS") for column in c.members if column.benchmark == benchmark
    ]
    if report_columns:
        return report_columns[0]
    return Column(SUMMARY, benchmark, tables.headline(benchmark, [run]))


def find_winners(scored: Sequence[ScoredRun]) -> dict[str, tuple[FinishedRun, float]]:
    """Find the best run by each benchmark's one number, the first of equals; a benchmark without one has no winner."""
    winners: dict[str, tuple[FinishedRun, float]] = {}
    for run, values in scored:
        for name in run.results:
            if name in values and (name not in winners or values[name] > winners[name][1]):
                winners[name] = (run, values[name])
    return winners

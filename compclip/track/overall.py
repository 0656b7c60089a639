"""One number a benchmark, as the report has it, and the best cell of the grid by each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compclip.report import tables
from compclip.report.tables import SUMMARY, Column
from compclip.runs.items import CLASSIFICATION, RETRIEVAL
from compclip.runs.results import FinishedRun

ONE_NUMBER = {CLASSIFICATION: ("top_1",), RETRIEVAL: ("i2t_recall_at_1", "t2i_recall_at_1")}

Scored = tuple[FinishedRun, Mapping[str, float]]  # a run and its `numbers`


def columns(runs: Sequence[FinishedRun], wanted: Sequence[str]) -> tuple[Column, ...]:
    """The report's columns that some run has; without `wanted`, every metric that is no detail of another."""
    benchmarks = list(dict.fromkeys(b for run in runs for b in run.results))
    known = {c.name: c for c in tables.every_column(runs, benchmarks)}
    there = [name for name in wanted if tables.resolve(name, known)]
    return tables.columns(runs, there, benchmarks)


def numbers(run: FinishedRun, shown: Sequence[Column]) -> dict[str, float]:
    """comp, zs, i2t and t2i of the report's summary, then one number for each benchmark by its name."""
    parts = tables.summary_columns(shown, [run])
    found = {c.metric.lower(): tables.value(run, c) for c in parts}
    found |= {name: tables.value(run, _column(name, run, parts)) for name in run.results}
    return {name: value for name, value in found.items() if value is not None}


def means(run: FinishedRun, shown: Sequence[Column]) -> dict[str, float]:
    """The shown columns that no result file has, since they are means of others, by <benchmark>/<metric>."""
    found = {c.name: tables.value(run, c) for c in shown if c.parts}
    return {name: value for name, value in found.items() if value is not None}


def _column(benchmark: str, run: FinishedRun, summary: Sequence[Column]) -> Column:
    """The whole-benchmark column: the report's part of Comp or ZS, or the mean Recall@1 of both ways."""
    own = [part for c in summary if c.metric in ("Comp", "ZS") for part in c.parts if part.benchmark == benchmark]
    if own:
        return own[0]
    metrics = ONE_NUMBER.get(run.results[benchmark].kind, ("average",))
    return Column(SUMMARY, benchmark, tuple(Column(benchmark, m) for m in metrics))


def winners(scored: Sequence[Scored]) -> dict[str, tuple[FinishedRun, float]]:
    """The best run by each benchmark's one number, the first of equals; a benchmark without one has no winner."""
    found: dict[str, tuple[FinishedRun, float]] = {}
    for run, values in scored:
        for name in run.results:
            if name in values and (name not in found or values[name] > found[name][1]):
                found[name] = (run, values[name])
    return found

"""The tables of the report: rows are methods, columns are metrics, one table for each backbone and data set.

A column is a metric of a benchmark, or the mean of other columns (the summary columns Comp, ZS, I2T, T2I, General).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from compclip.base.errors import UserError, unknown
from compclip.config.cell import PRETRAINED
from compclip.config.columns import WAYS
from compclip.report.statistics import Interval
from compclip.runs.items import CLASSIFICATION, COMPOSITION, RETRIEVAL, Items
from compclip.runs.results import FinishedRun, Result

SUMMARY = "summary"
SUMMARIES = ("Comp", "ZS", "I2T", "T2I", "General")
GENERAL = ("ZS", "I2T", "T2I")  # what the pretrained model could do before
AVERAGES = ("average_phenomena", "average_kinds", "average")  # what stands for a benchmark in Comp, the first it has
ZERO_SHOT = ("elevater", "top_1")  # and in ZS
RECALLS = {"I2T": "i2t_recall_at_1", "T2I": "t2i_recall_at_1"}


class Evaluated(Protocol):
    """A model that was evaluated: a run, or a mixture of its weights with the pretrained ones."""

    def number(self, benchmark: str, metric: str) -> float | None:
        """A metric's value; None where there is none."""


@dataclass(frozen=True)
class Column:
    """A metric of a benchmark; with `parts`, the plain mean of those columns.

    `lower`: less is better. `score`: a cosine, neither a share of items nor better when higher.
    """

    benchmark: str
    metric: str
    parts: tuple[Column, ...] = ()
    lower: bool = False
    score: bool = False

    @property
    def name(self) -> str:
        """As in `report.columns`: benchmark/metric."""
        return f"{self.benchmark}/{self.metric}"

    @property
    def scale(self) -> float:
        """What the number is multiplied by to be shown: shares are percentages."""
        return 1.0 if self.score else 100.0

    @property
    def digits(self) -> int:
        """Decimals shown."""
        return 3 if self.score else 1

    @property
    def arrow(self) -> str:
        """Which way is better; empty where neither is."""
        return "" if self.score else "↓" if self.lower else "↑"

    @property
    def better(self) -> str:
        """The same in a word."""
        return {"↑": "higher", "↓": "lower"}.get(self.arrow, "")


@dataclass(frozen=True)
class Statistic:
    """One number of a table, in the metric's own unit: `std` is None for one checkpoint, `difference` without interval.

    `seeds` counts checkpoints: one that stands under two seeds is one.
    """

    mean: float
    std: float | None
    seeds: int
    rank: int = 0
    difference: Interval | None = None
    change: float | None = None
    verdict: int = 0  # +1 better than what it is compared with, -1 worse, 0 the interval holds 0
    over: str = ""  # what `difference` is over: `crossed.interval`


@dataclass(frozen=True)
class Row:
    """A method's seeds in one backbone and data set; `statistics` has None where a result is missing."""

    method: str
    runs: tuple[FinishedRun, ...]
    statistics: tuple[Statistic | None, ...]

    @property
    def seeds(self) -> int:
        """How many checkpoints the row is the mean of, or pairs of them the difference."""
        return max((found.seeds for found in self.statistics if found), default=0)


@dataclass(frozen=True)
class Group:
    """The comparable rows: same backbone, same data."""

    backbone: str
    data: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """The heading of its table."""
        return f"{self.backbone} / {self.data}"


def columns(runs: Sequence[FinishedRun], wanted: Sequence[str] | None, benchmarks: Sequence[str]) -> tuple[Column, ...]:
    """The columns named in report.columns as benchmark/metric; without it every metric that is no detail of another.

    `<benchmark>/mean_recall_at_<k>` is the mean of both ways of retrieval, `<name>/<metric>` the mean over benchmarks
    `<name>_…` where none bears the name itself. Raises UserError for a column that no run has.
    """
    known = {c.name: c for c in every_column(runs, benchmarks)}
    if not wanted:
        return tuple(c for c in known.values() if not is_detail(c, runs))
    found = {name: resolve(name, known) for name in wanted}
    for name, column in found.items():
        if column is None:
            raise unknown("column", name, known, "params.yaml: report.columns")
    return tuple(found.values())


def resolve(name: str, known: dict[str, Column]) -> Column | None:
    """The column of that name, or the mean that it stands for; None where no run has it."""
    return known.get(name) or _mean_column(name, known)


def _mean_column(name: str, known: dict[str, Column]) -> Column | None:
    benchmark, _, metric = name.partition("/")
    if ways := WAYS.fullmatch(metric):
        parts = [known.get(f"{benchmark}/{way}_{ways[1]}") for way in ("i2t", "t2i")]
    else:
        parts = [c for c in known.values() if c.benchmark.startswith(f"{benchmark}_") and c.metric == metric]
    return _mean_of(benchmark, metric, tuple(parts)) if len(parts) > 1 and None not in parts else None


def _mean_of(benchmark: str, metric: str, parts: tuple[Column, ...]) -> Column:
    """A mean of columns that are all read alike."""
    return Column(benchmark, metric, parts, parts[0].lower, parts[0].score)


def every_column(runs: Sequence[FinishedRun], benchmarks: Iterable[str]) -> tuple[Column, ...]:
    """All metrics of all runs, benchmark by benchmark, in the order in which the result files have them."""
    found = {}
    for benchmark in benchmarks:
        for run in runs:
            if benchmark in run.results:
                found.update(
                    {(benchmark, m): measured(run.results[benchmark], m) for m in run.results[benchmark].metrics}
                )
    return tuple(found.values())


def measured(result: Result, metric: str) -> Column:
    """The column of one of a result's metrics, read as its benchmark declares it."""
    return Column(result.benchmark, metric, lower=metric in result.lower, score=metric in result.scores)


def is_detail(column: Column, runs: Sequence[FinishedRun]) -> bool:
    """A group's part of a metric (`swap/unseen_pairs`), or a metric that a mean is made of."""
    if "/" in column.metric:
        return True
    found = [run.results[column.benchmark] for run in runs if column.benchmark in run.results]
    return any(column.metric in members for result in found for members in result.means.values())


def summary_columns(shown: Sequence[Column], runs: Sequence[FinishedRun]) -> tuple[Column, ...]:
    """Comp, ZS, I2T and T2I as in FSC-CLIP Table 1, over the columns shown, and General, the mean of the last three.

    Comp: mean over compositionality benchmarks of one number each: FSC-CLIP's own average of it where that is another
    than `average`, else its `average`, else the mean of its columns (shares of which more is better).
    ZS: mean over classification benchmarks: of what ELEVATER counts where a set tells it, else of top-1. I2T, T2I: mean
    Recall@1 of the retrieval benchmarks.
    """
    kinds = {name: result.kind for run in runs for name, result in run.results.items()}
    every = every_column(runs, kinds)
    comp = [c for c in shown if kinds.get(c.benchmark) == COMPOSITION and not (c.score or c.lower)]
    parts = {"Comp": tuple(_one_number(name, comp, every) for name in dict.fromkeys(c.benchmark for c in comp))}
    named = [n for n, kind in kinds.items() if kind == CLASSIFICATION]
    parts["ZS"] = tuple(part for name in named for part in _first_known(name, ZERO_SHOT, every))
    for name, metric in RECALLS.items():
        parts[name] = tuple(c for c in every if kinds[c.benchmark] == RETRIEVAL and c.metric == metric)
    found = {name: Column(SUMMARY, name, p) for name, p in parts.items() if p}
    if found.keys() >= set(GENERAL):
        found["General"] = Column(SUMMARY, "General", tuple(found[name] for name in GENERAL))
    return tuple(found.values())


def _one_number(benchmark: str, shown: Sequence[Column], every: Sequence[Column]) -> Column:
    parts = _first_known(benchmark, AVERAGES, every) or tuple(c for c in shown if c.benchmark == benchmark)
    return Column(benchmark, "mean", parts)


def _first_known(benchmark: str, names: Sequence[str], every: Sequence[Column]) -> tuple[Column, ...]:
    """The benchmark's column of the first of these metrics that it has; nothing where it has none."""
    known = (Column(benchmark, name) for name in names)
    return next(((column,) for column in known if column in every), ())


def reference(runs: Sequence[FinishedRun], backbone: str, data: str) -> tuple[FinishedRun, ...]:
    """The pretrained model's runs: those of this data set, else those the grid has for the backbone."""
    base = [r for r in runs if r.cell.method == PRETRAINED and r.cell.backbone == backbone]
    first = base[0].cell.data if base else None
    same = [r for r in base if r.cell.data == data]
    return tuple(same or [r for r in base if r.cell.data == first])


def for_seeds(base: Sequence[FinishedRun], seeds: Iterable[int]) -> dict[int, FinishedRun]:
    """Give the pretrained model a run for each seed: it is one model, and stands beside all of them."""
    by_seed = {run.cell.seed: run for run in base}
    return {seed: by_seed.get(seed, base[0]) for seed in seeds}


def distinct(runs: Iterable[FinishedRun]) -> tuple[FinishedRun, ...]:
    """Keep the first run of each checkpoint."""
    first: dict[str, FinishedRun] = {}
    for run in runs:
        first.setdefault(run.identity, run)
    return tuple(first.values())


def verdict(found: Interval | None, column: Column) -> int:
    """+1 for a difference that is better, -1 for worse; 0 where its interval holds 0, and where neither is better."""
    return found.sign * (-1 if column.lower else 1) if found and not column.score else 0


def value(run: Evaluated, column: Column) -> float | None:
    """The column's number for one run; None where a part of it is missing."""
    if column.parts:
        parts = [value(run, part) for part in column.parts]
        return None if None in parts else float(np.mean(parts))
    return run.number(column.benchmark, column.metric)


def members(column: Column, runs: Sequence[FinishedRun]) -> tuple[Column, ...]:
    """The metrics that a result's metric is the mean of; none for one that is measured."""
    found = [r.results[column.benchmark] for r in runs if column.benchmark in r.results]
    names = found[0].means.get(column.metric, ()) if found else ()
    return tuple(Column(column.benchmark, name) for name in names)


def items_of(runs: Sequence[FinishedRun], column: Column) -> list[Items]:
    """The outcomes of a measured metric, of the runs that keep them."""
    found = [r.results[column.benchmark].items for r in runs if column.benchmark in r.results]
    return [items[column.metric] for items in found if column.metric in items]


def comparable(runs: Sequence[FinishedRun]) -> None:
    """Raise UserError where two runs were evaluated on different files of one benchmark, or before units were kept."""
    seen: dict[str, tuple[str, str]] = {}
    for run in runs:
        for name, result in run.results.items():
            if result.items and not result.has_units:
                raise UserError(
                    f"results of {name}: those of {run.cell.name} do not say which items show one picture, so that "
                    f"intervals would be too narrow; evaluate it again"
                )
            cell, first = seen.setdefault(name, (run.cell.name, result.fingerprint))
            if result.fingerprint != first:
                raise UserError(
                    f"results of {name}: {run.cell.name} and {cell} were evaluated on different benchmark files; "
                    f"evaluate one of them again"
                )

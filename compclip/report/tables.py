"""The tables of the report: rows are methods, columns are metrics, one table for each backbone and data set.

A column is a metric of a benchmark, or the mean of other columns (the summary columns Comp, ZS, I2T, T2I, General).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from compclip.base import messages
from compclip.base.errors import UserError, unknown
from compclip.config.cell import PRETRAINED, Cell
from compclip.config.columns import MEAN_OF_WAYS, SUMMARY
from compclip.report.statistics import Interval
from compclip.runs.item_outcomes import CLASSIFICATION, COMPOSITION, RETRIEVAL
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.result_files import FinishedRun, Result

Training = tuple[str, int]  # the backbone and the seed of a run
SINGLE_ITEMS = "results of an earlier version do not say which items show one picture; each counts by itself"
GENERAL = ("ZS", "I2T", "T2I")  # what the pretrained model could do before
RECALLS = {"I2T": "i2t_recall_at_1", "T2I": "t2i_recall_at_1"}


class Evaluated(Protocol):
    """A model that was evaluated: a run, or a mixture of its weights with the pretrained ones."""

    def number(self, benchmark: str, metric: str) -> float | None:
        """Return a metric's value; None where there is none."""


@dataclass(frozen=True)
class Column:
    """A metric of a benchmark; with `members`, the plain mean of those columns.

    `lower`: less is better. `score`: a cosine, neither a share of items nor better when higher.
    """

    benchmark: str
    metric: str
    members: tuple[Column, ...] = ()
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
    basis: str = ""  # what `difference` is over: `statistics.compute_interval`
    equal_to: str = ""  # the best row, where this one cannot be told from it; of the best, the nearest such row
    backbones: int = 1  # that the checkpoints are of


@dataclass(frozen=True)
class MethodRow:
    """A method's seeds in one backbone and data set; `statistics` has None where a result is missing."""

    method: str
    runs: tuple[FinishedRun, ...]
    statistics: tuple[Statistic | None, ...]

    @property
    def seeds(self) -> int:
        """How many checkpoints the row is the mean of, or pairs of them the difference."""
        return max((statistic.seeds for statistic in self.statistics if statistic), default=0)


@dataclass(frozen=True)
class ResultTable:
    """The comparable rows: same backbone, or same versions of one, and same data."""

    backbone: str
    data: str
    columns: tuple[Column, ...]
    rows: tuple[MethodRow, ...]
    split: PictureSplit = field(default_factory=PictureSplit)  # the items that its numbers are of
    tuned: Mapping[str, str] = field(default_factory=dict)  # methods that were tuned on what is shown: how, in words
    versions: tuple[str, ...] = ()  # the backbones that its rows are over, where they are declared as versions of one
    checkpoints: Mapping[str, str] = field(default_factory=dict)  # methods whose checkpoint was chosen: which, in words

    @property
    def name(self) -> str:
        """The heading of its table."""
        return f"{self.backbone} / {self.data}"

    @property
    def backbones(self) -> tuple[str, ...]:
        """The backbones of its runs: the versions, or the one that it is called by."""
        return self.versions or (self.backbone,)

    def holds(self, cell: Cell) -> bool:
        """Return whether a cell is of the table's backbones and data set."""
        return cell.data == self.data and cell.backbone in self.backbones

    @property
    def runs(self) -> tuple[FinishedRun, ...]:
        """The runs of all rows."""
        return tuple(run for row in self.rows for run in row.runs)

    @property
    def summaries(self) -> dict[str, Column]:
        """The summary columns by name."""
        return {column.metric: column for column in self.columns if column.benchmark == SUMMARY}


def select_columns(
    runs: Sequence[FinishedRun], names: Sequence[str] | None, benchmarks: Sequence[str]
) -> tuple[Column, ...]:
    """Select the columns that report.columns names; without it every metric that is no detail of another.

    `<benchmark>/mean_recall_at_<k>` is the mean of both ways of retrieval, `<name>/<metric>` the mean over benchmarks
    `<name>_…` where none bears the name itself. Raises UserError for a column that no run has.
    """
    available = {c.name: c for c in list_columns(runs, benchmarks)}
    if not names:
        return tuple(c for c in available.values() if not is_detail(c, runs))
    columns = []
    for name in dict.fromkeys(names):
        column = resolve_column(name, available)
        if column is None:
            raise unknown("column", name, available, "params.yaml: report.columns")
        columns.append(column)
    return tuple(columns)


def resolve_column(name: str, available: dict[str, Column]) -> Column | None:
    """Find the column of that name, or the mean that it stands for; None where no run has it."""
    if name in available:
        return available[name]
    benchmark, _, metric = name.partition("/")
    if ways := MEAN_OF_WAYS.fullmatch(metric):
        both = [available.get(f"{benchmark}/{way}_{ways[1]}") for way in ("i2t", "t2i")]
        members = [c for c in both if c]
    else:
        members = [c for c in available.values() if c.benchmark.startswith(f"{benchmark}_") and c.metric == metric]
    if len(members) < 2:
        return None
    return Column(benchmark, metric, tuple(members), members[0].lower, members[0].score)  # all are read alike


def list_columns(runs: Sequence[FinishedRun], benchmarks: Iterable[str]) -> tuple[Column, ...]:
    """List all metrics of all runs, benchmark by benchmark, in the order in which the result files have them."""
    columns = {}
    for benchmark in benchmarks:
        for run in runs:
            if benchmark in run.results:
                result = run.results[benchmark]
                columns.update({(benchmark, m): make_measured_column(result, m) for m in result.metrics})
    return tuple(columns.values())


def make_measured_column(result: Result, metric: str) -> Column:
    """Make the column of one of a result's metrics, read as its benchmark declares it."""
    return Column(result.benchmark, metric, lower=metric in result.lower, score=metric in result.scores)


def is_detail(column: Column, runs: Sequence[FinishedRun]) -> bool:
    """Return whether a metric is of a group of items (`swap/unseen_pairs`), or a member of a mean."""
    if "/" in column.metric:
        return True
    results = [run.results[column.benchmark] for run in runs if column.benchmark in run.results]
    return any(column.metric in members for result in results for members in result.means.values())


def summary_columns(columns: Sequence[Column], runs: Sequence[FinishedRun]) -> tuple[Column, ...]:
    """Return Comp, ZS, I2T and T2I as in FSC-CLIP Table 1, and General, the mean of the last three.

    Comp: mean over compositionality benchmarks of one number each: the benchmark's headline, or where it has none the
    mean of its columns (shares of which more is better). ZS: mean over classification benchmarks of their headlines.
    I2T, T2I: mean Recall@1 of the retrieval benchmarks.
    """
    kinds = {name: result.kind for run in runs for name, result in run.results.items()}
    all_columns = list_columns(runs, kinds)
    comp = [c for c in columns if kinds.get(c.benchmark) == COMPOSITION and not (c.score or c.lower)]
    members = {
        "Comp": tuple(
            Column(name, "mean", headline(name, runs) or tuple(c for c in comp if c.benchmark == name))
            for name in dict.fromkeys(c.benchmark for c in comp)
        ),
        "ZS": tuple(c for name, kind in kinds.items() if kind == CLASSIFICATION for c in headline(name, runs)),
    }
    for name, metric in RECALLS.items():
        members[name] = tuple(c for c in all_columns if kinds[c.benchmark] == RETRIEVAL and c.metric == metric)
    summaries = {name: Column(SUMMARY, name, p) for name, p in members.items() if p}
    if summaries.keys() >= set(GENERAL):
        summaries["General"] = Column(SUMMARY, "General", tuple(summaries[name] for name in GENERAL))
    return tuple(summaries.values())


def headline(benchmark: str, runs: Sequence[FinishedRun]) -> tuple[Column, ...]:
    """Return the columns whose mean stands for a benchmark, as its result files declare them; empty without any."""
    results = (run.results[benchmark] for run in runs if benchmark in run.results)
    return next((tuple(make_measured_column(r, metric) for metric in r.headline) for r in results if r.headline), ())


def select_pretrained_runs(runs: Sequence[FinishedRun], backbones: Sequence[str], data: str) -> tuple[FinishedRun, ...]:
    """Select the pretrained models' runs: of each backbone those of this data set, else those the grid has."""
    return tuple(run for backbone in backbones for run in _select_pretrained(runs, backbone, data))


def _select_pretrained(runs: Sequence[FinishedRun], backbone: str, data: str) -> tuple[FinishedRun, ...]:
    base = [r for r in runs if r.cell.method == PRETRAINED and r.cell.backbone == backbone]
    first = base[0].cell.data if base else None
    same_data = [r for r in base if r.cell.data == data]
    return tuple(same_data or [r for r in base if r.cell.data == first])


def index_runs(runs: Iterable[FinishedRun]) -> dict[Training, FinishedRun]:
    """Index a method's runs by backbone and seed."""
    return {(str(run.cell.backbone), run.cell.seed): run for run in runs}


def repeat_pretrained(base: Sequence[FinishedRun], trainings: Iterable[Training]) -> dict[Training, FinishedRun]:
    """Give each training the pretrained model of its backbone: it is one model, and stands beside all seeds.

    Trainings of a backbone that `base` lacks are absent.
    """
    by_training = index_runs(base)
    first_of = {str(run.cell.backbone): run for run in reversed(base)}
    return {t: by_training.get(t, first_of[t[0]]) for t in trainings if t[0] in first_of}


def column_value(run: Evaluated, column: Column) -> float | None:
    """Return the column's number for one run; None where the run lacks it, or a member of a mean."""
    if not column.members:
        return run.number(column.benchmark, column.metric)
    values = [v for member in column.members if (v := column_value(run, member)) is not None]
    return float(np.mean(values)) if len(values) == len(column.members) else None


def required_value(run: Evaluated, column: Column) -> float:
    """Return the column's number for a run that is known to have it."""
    value = column_value(run, column)
    assert value is not None, f"{column.name}: the run has no such number"
    return value


def mean_members(column: Column, runs: Sequence[FinishedRun]) -> tuple[Column, ...]:
    """Return the metrics that a result's metric is the mean of; none for one that is measured."""
    results = [r.results[column.benchmark] for r in runs if column.benchmark in r.results]
    names = results[0].means.get(column.metric, ()) if results else ()
    return tuple(Column(column.benchmark, name) for name in names)


def list_single_items(runs: Sequence[FinishedRun]) -> list[str]:
    """List the benchmarks of which some results do not say which items show one picture."""
    results = [result for run in runs for result in run.results.values() if result.items and not result.has_units]
    return list(dict.fromkeys(result.benchmark for result in results))


def check_same_files(runs: Sequence[FinishedRun]) -> None:
    """Raise UserError where two runs were evaluated on different files of one benchmark.

    Warn in one line where results do not say which items show one picture.
    """
    first_of: dict[str, tuple[str, str]] = {}
    if names := list_single_items(runs):
        messages.warn(f"{SINGLE_ITEMS}: {', '.join(names)}; `dvc repro` scores them again")
    for run in runs:
        for name, result in run.results.items():
            cell, first = first_of.setdefault(name, (run.cell.name, result.fingerprint))
            if result.fingerprint != first:
                raise UserError(
                    f"results of {name}: {run.cell.name} and {cell} were evaluated on different benchmark files; "
                    f"evaluate one of them again"
                )

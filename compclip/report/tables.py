"""The tables of the report: rows are methods, columns are metrics, one table for each backbone and data set.

A column is a metric of a benchmark, or the mean of other columns (the summary columns Comp, ZS, I2T, T2I, General).
A difference has the interval of the claims and of the reference table: over seeds and items together. The pretrained
model is one model; its scores are compared with every seed of the other method. What a difference varies by over seeds
is moderated by what the table's other trained rows vary by (`statistics.SeedPrior`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeVar

import numpy as np

from compclip.base.errors import UserError, unknown
from compclip.config.cell import PRETRAINED, Cell
from compclip.config.columns import MEAN_OF_WAYS, SUMMARY
from compclip.model import model_config
from compclip.report import statistics
from compclip.report.statistics import ColumnPriors, Interval, ItemDifferences, SeedPrior, mean_std
from compclip.runs.item_outcomes import CLASSIFICATION, COMPOSITION, RETRIEVAL, Items
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.result_files import FinishedRun, Result

RowName = tuple[str, str, str]  # method, backbone, data
RowMarks = Mapping[str, Mapping[RowName, str]]  # by mark the rows of all tables that bear it, and why
Shown = TypeVar("Shown")  # a cell as an output has it
MEAN = "mean"  # of a benchmark's headline: its one number
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

    def __hash__(self) -> int:
        """Hash the name alone: every number of a table is looked up by its column, and means have many members."""
        return hash((self.benchmark, self.metric))

    @property
    def name(self) -> str:
        """As in `report.columns`: benchmark/metric."""
        return f"{self.benchmark}/{self.metric}"

    @property
    def is_mean(self) -> bool:
        """Whether it is a benchmark's one number in Comp."""
        return self.metric == MEAN and bool(self.members)

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


@dataclass(frozen=True)
class Statistic:
    """One number of a table, in the metric's own unit: `std` is None for one checkpoint, `difference` without interval.

    `seeds` counts checkpoints: one that is under two seeds is one.
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
    without: tuple[tuple[str, Statistic], ...] = ()  # of Comp: by benchmark, the difference without it
    rests_on: tuple[str, ...] = ()  # of Comp: the benchmarks without which the difference is not decided


@dataclass(frozen=True)
class MethodRow:
    """A method's seeds in one backbone and data set, and its number in each column that it has a result of."""

    method: str
    runs: tuple[FinishedRun, ...]
    statistics: Mapping[Column, Statistic]

    @property
    def seeds(self) -> int:
        """How many checkpoints the row is the mean of, or pairs of them the difference."""
        return max((statistic.seeds for statistic in self.statistics.values()), default=0)


@dataclass(frozen=True)
class ResultTable:
    """The comparable rows: same backbone and same data."""

    backbone: str
    data: str
    columns: tuple[Column, ...]
    rows: tuple[MethodRow, ...]
    split: PictureSplit = field(default_factory=PictureSplit)  # the items that its numbers are of
    row_marks: RowMarks = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The heading of its table."""
        return f"{self.backbone} / {self.data}"

    def holds(self, cell: Cell) -> bool:
        """Return whether a cell is of the table's backbone and data set."""
        return (cell.data, cell.backbone) == (self.data, self.backbone)

    @property
    def runs(self) -> tuple[FinishedRun, ...]:
        """The runs of all rows."""
        return tuple(run for row in self.rows for run in row.runs)

    @property
    def by_method(self) -> dict[str, MethodRow]:
        """The rows by their methods."""
        return {row.method: row for row in self.rows}

    @property
    def runs_by_seed(self) -> dict[str, RunsBySeed]:
        """Each method's runs by seed; the pretrained model is beside every training."""
        by_method: dict[str, RunsBySeed] = {row.method: index_runs(row.runs) for row in self.rows}
        if PRETRAINED in by_method:
            base = list(by_method[PRETRAINED].values())
            by_method[PRETRAINED] = repeat_pretrained(base, index_runs(self.runs))
        return by_method

    def with_statistics(self, statistics: Mapping[str, Mapping[Column, Statistic]]) -> ResultTable:
        """Return the table with other numbers in its rows, by method."""
        return replace(self, rows=tuple(replace(row, statistics=statistics[row.method]) for row in self.rows))

    def numbers(self) -> Iterator[tuple[MethodRow, Column, Statistic]]:
        """Yield every number that is there, row by row, with its row and its column."""
        for row in self.rows:
            for column in self.columns:
                if column in row.statistics:
                    yield row, column, row.statistics[column]

    def list_cells(self, row: MethodRow, make: Callable[[Statistic, Column], Shown], missing: Shown) -> list[Shown]:
        """List what `make` gives of a row's number in each column; `missing` where it has none."""
        cells = []
        for column in self.columns:
            cells.append(make(row.statistics[column], column) if column in row.statistics else missing)
        return cells

    def get_note(self, mark: str, method: str) -> str:
        """Return why a row bears a mark; empty where it does not."""
        return self.row_marks.get(mark, {}).get((method, self.backbone, self.data), "")

    def select(self, columns: Sequence[Column]) -> ResultTable:
        """Return the table with some of its columns alone."""
        statistics = {}
        for row in self.rows:
            statistics[row.method] = {c: row.statistics[c] for c in columns if c in row.statistics}
        return replace(self, columns=tuple(columns)).with_statistics(statistics)

    def change(self, change: Callable[[Statistic], Statistic]) -> ResultTable:
        """Return the table with every number that is there changed."""
        statistics = {}
        for row in self.rows:
            statistics[row.method] = {column: change(s) for column, s in row.statistics.items()}
        return self.with_statistics(statistics)

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
    ways = MEAN_OF_WAYS.fullmatch(metric)
    if ways:
        names = (f"{benchmark}/i2t_{ways[1]}", f"{benchmark}/t2i_{ways[1]}")
        members = [available[name] for name in names if name in available]
    else:
        members = [c for c in available.values() if c.benchmark.startswith(f"{benchmark}_") and c.metric == metric]
    if len(members) < 2:
        return None
    return Column(benchmark, metric, tuple(members), members[0].lower, members[0].score)  # all are read alike


def list_columns(runs: Sequence[FinishedRun], benchmarks: Iterable[str]) -> tuple[Column, ...]:
    """List all metrics of all runs, benchmark by benchmark, in the order in which the result files have them."""
    columns = {}
    for benchmark in benchmarks:
        for result in results_of(runs, benchmark):
            for metric in result.metrics:
                columns[benchmark, metric] = make_measured_column(result, metric)
    return tuple(columns.values())


def results_of(runs: Iterable[FinishedRun], benchmark: str) -> list[Result]:
    """Return the results of a benchmark that runs have."""
    return [run.results[benchmark] for run in runs if benchmark in run.results]


def benchmark_kinds(runs: Iterable[FinishedRun]) -> dict[str, str]:
    """Return the kind of each benchmark that runs have a result of."""
    kinds = {}
    for run in runs:
        for name, result in run.results.items():
            kinds[name] = result.kind
    return kinds


def make_measured_column(result: Result, metric: str) -> Column:
    """Make the column of one of a result's metrics, read as its benchmark declares it."""
    return Column(result.benchmark, metric, lower=metric in result.lower, score=metric in result.scores)


def is_detail(column: Column, runs: Sequence[FinishedRun]) -> bool:
    """Return whether a metric is of a group of items (`swap/unseen_pairs`), or a member of a mean."""
    if "/" in column.metric:
        return True
    members = set[str]()
    for result in results_of(runs, column.benchmark):
        members.update(*result.means.values())
    return column.metric in members


def summary_columns(columns: Sequence[Column], runs: Sequence[FinishedRun]) -> tuple[Column, ...]:
    """Return Comp, ZS, I2T and T2I as in FSC-CLIP Table 1, and General, the mean of the last three.

    Comp: mean over compositionality benchmarks of one number each: the benchmark's headline, or where it has none the
    mean of its columns (shares of which more is better). ZS: mean over classification benchmarks of their headlines.
    I2T, T2I: mean Recall@1 of the retrieval benchmarks.
    """
    kinds = benchmark_kinds(runs)
    shares: dict[str, list[Column]] = {}
    for column in columns:
        if kinds.get(column.benchmark) == COMPOSITION and not (column.score or column.lower):
            shares.setdefault(column.benchmark, []).append(column)
    members: dict[str, list[Column]] = {name: [] for name in ("Comp", *GENERAL)}
    for benchmark, of_benchmark in shares.items():
        members["Comp"].append(Column(benchmark, MEAN, headline(benchmark, runs) or tuple(of_benchmark)))
    for benchmark, kind in kinds.items():
        members["ZS"] += headline(benchmark, runs) if kind == CLASSIFICATION else ()
        retrieved = list_columns(runs, [benchmark]) if kind == RETRIEVAL else ()
        for name, metric in RECALLS.items():
            members[name] += [column for column in retrieved if column.metric == metric]
    summaries = {name: Column(SUMMARY, name, tuple(p)) for name, p in members.items() if p}
    if summaries.keys() >= set(GENERAL):
        summaries["General"] = Column(SUMMARY, "General", tuple(summaries[name] for name in GENERAL))
    return tuple(summaries.values())


def headline(benchmark: str, runs: Sequence[FinishedRun]) -> tuple[Column, ...]:
    """Return the columns whose mean stands for a benchmark, as its result files declare them; empty without any."""
    for result in results_of(runs, benchmark):
        if result.headline:
            return tuple(make_measured_column(result, metric) for metric in result.headline)
    return ()


def select_pretrained_runs(runs: Sequence[FinishedRun], backbone: str, data: str) -> tuple[FinishedRun, ...]:
    """Select the pretrained model's runs: those of this data set, else those the grid has."""
    by_data: dict[str, list[FinishedRun]] = {}
    for run in runs:
        if run.cell.method == PRETRAINED and run.cell.backbone == backbone:
            by_data.setdefault(run.cell.data, []).append(run)
    first = next(iter(by_data.values()), [])
    return tuple(by_data.get(data, first))


def index_runs(runs: Iterable[FinishedRun]) -> dict[int, FinishedRun]:
    """Index a method's runs by seed."""
    return {run.cell.seed: run for run in runs}


def repeat_pretrained(base: Sequence[FinishedRun], seeds: Iterable[int]) -> dict[int, FinishedRun]:
    """Give each seed the pretrained model: it is one model, and is compared with all of them."""
    by_seed = index_runs(base)
    return {seed: by_seed.get(seed, base[0]) for seed in seeds}


def column_value(run: Evaluated, column: Column) -> float | None:
    """Return the column's number for one run; None where the run lacks it, or a member of a mean."""
    if not column.members:
        return run.number(column.benchmark, column.metric)
    values = []
    for member in column.members:
        value = column_value(run, member)
        if value is None:
            return None
        values.append(value)
    return float(np.mean(values))


def required_value(run: Evaluated, column: Column) -> float:
    """Return the column's number for a run that is known to have it."""
    value = column_value(run, column)
    assert value is not None, f"{column.name}: the run has no such number"
    return value


def mean_members(column: Column, runs: Sequence[FinishedRun]) -> tuple[Column, ...]:
    """Return the metrics that a result's metric is the mean of; none for one that is measured."""
    results = results_of(runs, column.benchmark)
    names = results[0].means.get(column.metric, ()) if results else ()
    return tuple(Column(column.benchmark, name) for name in names)


def check_same_files(runs: Iterable[FinishedRun]) -> None:
    """Raise UserError where two runs were evaluated on different files of one benchmark."""
    first_of: dict[str, tuple[str, str]] = {}
    for run in runs:
        for name, result in run.results.items():
            cell, first = first_of.setdefault(name, (run.cell.name, result.fingerprint))
            if result.fingerprint != first:
                both = f"{run.cell.name} and {cell} were evaluated on different benchmark files"
                raise UserError(f"results of {name}: {both}; evaluate one of them again")


def list_backbones(group: ResultTable) -> list[tuple[str, str]]:
    """List the different backbones of a table's runs, as (model, weights) of their configurations."""
    sections = [run.config["backbone"] for run in group.runs if run.config.get("backbone")]
    backbones = [(str(s["model"]), str(s.get("weights") or "")) for s in sections if s.get("model")]
    return list(dict.fromkeys(backbones))


def has_random_weights(group: ResultTable) -> bool:
    """Return whether the backbone of some run of the table has random weights."""
    return any(model_config.has_random_weights(*start) for start in list_backbones(group))


# --- the rows: means over checkpoints, differences to the pretrained model or another method, and ranks

RunsBySeed = Mapping[int, FinishedRun]  # a method's runs
RunPair = tuple[FinishedRun, FinishedRun]  # of one seed


Priors = Mapping[Column, ColumnPriors]
NO_PRIORS: Priors = MappingProxyType({})


def estimate_priors(columns: Iterable[Column], runs: Collection[RunsBySeed]) -> Priors:
    """Estimate the priors of columns from the runs of a table's rows; rows of a single checkpoint tell nothing."""
    priors = {}
    for column in columns:
        rows = []
        for by_seed in runs:
            scores = {seed: score for seed, run in by_seed.items() if (score := column_value(run, column)) is not None}
            if len({by_seed[seed].identity for seed in scores}) > 1:
                rows.append(scores)
        priors[column] = statistics.estimate_column_priors(rows)
    return priors


def select_prior(priors: ColumnPriors, pairs: Sequence[RunPair]) -> SeedPrior | None:
    """Return the prior of a mean over pairs: of a row alone where one side of them is a single checkpoint."""
    checkpoints = [{run.identity for run in side} for side in zip(*pairs, strict=True)]
    return priors.row if 1 in map(len, checkpoints) else priors.pair


def build_tables(
    runs: Sequence[FinishedRun], columns: Sequence[Column], split: PictureSplit | None = None
) -> list[ResultTable]:
    """Make one table for each backbone and data set, in the grid's order; `runs` have the items of `split` alone."""
    pairs = dict.fromkeys((str(r.cell.backbone), str(r.cell.data)) for r in runs)
    built = []
    for backbone, data in pairs:
        table = ResultTable(backbone, data, tuple(columns), (), split or PictureSplit())
        built.append(unmark_random(replace(table, rows=_build_rows(table, runs))))
    return built


def _build_rows(table: ResultTable, runs: Sequence[FinishedRun]) -> tuple[MethodRow, ...]:
    base = select_pretrained_runs(runs, table.backbone, table.data)
    methods: dict[str, list[FinishedRun]] = {PRETRAINED: list(base)} if base else {}
    for run in runs:
        if table.holds(run.cell) and run not in base:
            methods.setdefault(run.cell.method, []).append(run)
    priors = estimate_priors(table.columns, [index_runs(of_row) for of_row in methods.values()])
    rows = []
    for method, of_row in methods.items():
        numbers = compute_columns(table.columns, partial(compute_statistic, runs=of_row, base=base, priors=priors))
        rows.append(MethodRow(method, tuple(of_row), numbers))
    return tuple(rows)


def compute_columns(
    columns: Iterable[Column], compute: Callable[[Column], Statistic | None]
) -> dict[Column, Statistic]:
    """Compute the number of each column; columns that have none are absent."""
    numbers = {}
    for column in columns:
        statistic = compute(column)
        if statistic is not None:
            numbers[column] = statistic
    return numbers


def unmark_random(group: ResultTable) -> ResultTable:
    """Drop verdicts where the backbone's weights are random: none is better than a pretrained model."""
    return group.change(lambda statistic: replace(statistic, verdict=0)) if has_random_weights(group) else group


def compute_statistic(
    column: Column, runs: Sequence[FinishedRun], base: Sequence[FinishedRun], priors: Priors = NO_PRIORS
) -> Statistic | None:
    """Compute mean and deviation over a method's checkpoints, and the difference to the pretrained model.

    None where no run has the metric.
    """
    checkpoints: dict[str, FinishedRun] = {}  # one that is under two seeds is one
    for run in runs:
        if column_value(run, column) is not None:
            checkpoints.setdefault(run.identity, run)
    if not checkpoints:
        return None
    mean, std = mean_std([required_value(run, column) for run in checkpoints.values()])
    by_seed = index_runs(checkpoints.values())
    contrast = None
    if base and runs[0].cell.method != PRETRAINED:
        contrast = compute_difference(column, by_seed, repeat_pretrained(base, by_seed), priors)
    return replace(contrast or Statistic(0, None, 0), mean=mean, std=std, seeds=len(checkpoints))


def compute_difference(
    column: Column, left: RunsBySeed, right: RunsBySeed, priors: Priors = NO_PRIORS
) -> Statistic | None:
    """Compute the difference of two methods' runs with its interval; None where no training of both has the column.

    `mean` and `std` are those of `left`, over the trainings of both.
    """
    pairs = pair_runs(left, right, column)
    if not pairs:
        return None
    mean, std = mean_std([required_value(run, column) for run, _ in pairs])
    gaps, interval, basis = compare_pairs(pairs, column, priors)
    verdict = 0  # of a column of which neither more nor less is better, or where the interval holds 0
    if interval and not column.score:
        verdict = -interval.sign if column.lower else interval.sign
    change = mean_std(gaps)[0]
    return Statistic(
        mean=mean, std=std, seeds=len(pairs), rank=0, difference=interval, change=change, verdict=verdict, basis=basis
    )


def pair_runs(left: RunsBySeed, right: RunsBySeed, column: Column) -> list[RunPair]:
    """Pair the runs of two methods of each seed that both have with the column.

    Two seeds of the same two checkpoints are one pair.
    """
    scored = {}
    for seed in sorted(left.keys() & right.keys()):
        pair = left[seed], right[seed]
        if all(column_value(run, column) is not None for run in pair):
            scored[pair[0].identity, pair[1].identity] = pair
    return list(scored.values())


def compare_pairs(
    pairs: Sequence[RunPair], column: Column, priors: Priors = NO_PRIORS
) -> tuple[list[float], Interval | None, str]:
    """Return left - right of each pair, as `pair_runs` has them, the interval of their mean, and what that is over."""
    gaps = [required_value(left, column) - required_value(right, column) for left, right in pairs]
    prior = select_prior(priors[column], pairs) if column in priors else None
    return gaps, *statistics.compute_interval(gaps, collect_item_differences(column, pairs), prior)


def collect_item_differences(
    column: Column, pairs: Sequence[RunPair], weight: float = 1.0
) -> list[ItemDifferences] | None:
    """Collect the metrics whose weighted means are the column, by the rules of `tables.column_value`.

    None where one of them keeps no items, or those of a single picture.
    """
    members = column.members or mean_members(column, [left for left, _ in pairs])
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
        left_items = _find_items(left, column)
        right_items = _find_items(right, column)
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


def build_contrasts(groups: Sequence[ResultTable], method: str) -> list[ResultTable]:
    """Build each table's rows as differences to its row `method`; without rows where it has none.

    A statistic's `mean` is the row's own, over the seeds of both.
    """
    contrasts = []
    for group in groups if method else ():
        base = group.by_method.get(method)
        right = index_runs(base.runs) if base else {}
        priors = estimate_priors(group.columns, [index_runs(row.runs) for row in group.rows])
        rows = []
        for row in group.rows if base else ():
            if row is not base:
                left = index_runs(row.runs)
                shared = tuple(run for training, run in left.items() if training in right)
                compare = partial(compute_difference, left=left, right=right, priors=priors)
                differences = compute_columns(group.columns, compare)
                rows.append(MethodRow(row.method, shared, differences))
        contrasts.append(unmark_random(replace(group, rows=tuple(rows))))
    return contrasts

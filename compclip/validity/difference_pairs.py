"""Pairs of differences to the pretrained model: ours on the scenes, by seed, and the published one that it stands for.

The papers print several numbers for one row and column of ours. Their differences are averaged over tables that
print the same model, then over columns, models and papers, so that a model printed five times weighs once.
Differences are in points (scores in their own unit), and higher is better: where less is better, signs are turned.
What is in no pair, ours or published, is listed with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from compclip.config.cell import PRETRAINED
from compclip.report import tables
from compclip.report.published_numbers import PublishedNumber, drop_wrong_activations
from compclip.report.statistics import mean_std
from compclip.report.tables import Column
from compclip.runs.result_files import FinishedRun
from compclip.validity.counterparts import HELD_OUT, Counterpart, Counterparts

DIGITS = 6  # of differences: equal values stay equal whatever the order of summation
PaperTable = tuple[str, str]  # paper and its table
NOT_IN_FILE = "no word of it in the file"
HELD_OUT_REASON = "kept aside"
NO_ROW = "no published row of these methods has it"


@dataclass(frozen=True)
class PrintedDifference:
    """One published difference: of a row and the pretrained model of its table, on the same backbone."""

    paper: str
    table: str
    row: str
    method: str
    backbone: str
    data: str
    column: str
    difference: float

    @property
    def model(self) -> tuple[str, str, str, str]:
        """What identifies the weights: tables that agree in it print the same model."""
        return self.paper, self.method, self.backbone, self.data

    @property
    def text(self) -> str:
        """Where the difference is printed, as text."""
        on = ", ".join(filter(None, (self.backbone, self.data)))
        return f"{self.paper}, {self.table}: {self.row} ({on}), {self.column}"


@dataclass(frozen=True)
class DifferencePair:
    """A row and a column of ours: our difference of each seed, and the published one with what it is the mean of.

    `row_family` and `kind` are the families of the row and of the column, which are drawn together.
    """

    row: str
    column: Counterpart
    kind: str
    unit: Column
    half: str
    seeds: tuple[int, ...]
    ours: tuple[float, ...]
    printed: tuple[PrintedDifference, ...]
    row_family: str = ""

    @property
    def mean(self) -> float:
        """Our difference over seeds."""
        return round(mean_std(self.ours)[0], DIGITS)

    @property
    def published(self) -> float:
        """The published difference."""
        return higher_is_better(average_printed(self.printed), self.unit)


FindPrinted = Callable[[str, str], tuple[PrintedDifference, ...]]  # of a row of ours, in a published column


def index_printed(declared: Counterparts, numbers: Sequence[PublishedNumber]) -> FindPrinted:
    """Return a function that looks up the published differences of a row of ours in a published column.

    Numbers whose weights were scored with a wrong activation are left out.
    """
    values: dict[tuple[PaperTable, str], list[PublishedNumber]] = {}
    for n in drop_wrong_activations(numbers):
        values.setdefault(((n.paper, n.table), n.column), []).append(n)

    def find(row: str, column: str) -> tuple[PrintedDifference, ...]:
        differences = []
        for source in declared.published_rows(row):
            here = (source.paper, source.table)
            base = (source.paper, declared.baselines.get(here, source.table))
            bases = {n.backbone: float(n.value) for n in values.get((base, column), ()) if n.method == PRETRAINED}
            for n in values.get((here, column), ()):
                if n.row == source.row and n.backbone in bases:
                    gap = round(float(n.value) - bases[n.backbone], DIGITS)
                    differences.append(PrintedDifference(n.paper, n.table, *n.model, n.column, gap))
        return tuple(differences)

    return find


def average_printed(differences: Sequence[PrintedDifference]) -> float:
    """Average over tables, then columns, models and papers. Raises ZeroDivisionError for no differences."""
    levels = (attrgetter("paper"), attrgetter("model"), attrgetter("column"), attrgetter("table"))
    return round(_nested_mean(differences, levels), DIGITS)


def _nested_mean(
    differences: Sequence[PrintedDifference], levels: Sequence[Callable[[PrintedDifference], Any]]
) -> float:
    if not levels:
        return mean_std([p.difference for p in differences])[0]
    groups: dict[Any, list[PrintedDifference]] = {}
    for p in differences:
        groups.setdefault(levels[0](p), []).append(p)
    return mean_std([_nested_mean(group, levels[1:]) for group in groups.values()])[0]


def make_pairs(
    declared: Counterparts,
    numbers: Sequence[PublishedNumber],
    runs: Sequence[FinishedRun],
    columns: Mapping[str, Column],
    halves: Collection[str],
) -> list[DifferencePair]:
    """Return every pair of the runs in these halves; nothing is computed of other pairs.

    `columns` are ours by name. A pair needs a seed of ours with the column and one published difference.
    """
    by_row: dict[str, list[FinishedRun]] = {}
    for run in runs:
        by_row.setdefault(run.cell.method, []).append(run)
    base = by_row.pop(PRETRAINED, [])
    published = make_published_pairs(declared, numbers, by_row, columns)
    pairs = []
    for pair in (p for p in published if p.half in halves):
        if ours := _our_differences(by_row[pair.row], base, pair.unit):
            pairs.append(replace(pair, seeds=tuple(ours), ours=tuple(ours.values())))
    return pairs


def make_published_pairs(
    declared: Counterparts,
    numbers: Sequence[PublishedNumber],
    rows: Iterable[str],
    columns: Mapping[str, Column],
) -> list[DifferencePair]:
    """Return the published side of every pair of these rows and columns, ours left empty."""
    prints, kinds = index_printed(declared, numbers), {f.name: f.kind for f in declared.families}
    pairs = []
    for row in (r for r in rows if r in declared.row_halves):
        for column in (c for c in declared.columns if c.name in columns):
            if printed := tuple(p for name in column.published for p in prints(row, name)):
                unit, half = columns[column.name], declared.find_half(row, column)
                kind, family = kinds[column.family], declared.row_families[row]
                pairs.append(DifferencePair(row, column, kind, unit, half, (), (), printed, family))
    return pairs


def _our_differences(
    runs: Sequence[FinishedRun], pretrained_runs: Sequence[FinishedRun], unit: Column
) -> dict[int, float]:
    """Return our difference of each seed that has the column, the mean over backbones; {} without a pretrained number.

    Each run is compared with the start of its own backbone.
    """
    starts: dict[str, list[float]] = {}
    for run in pretrained_runs:
        if (value := tables.column_value(run, unit)) is not None:
            starts.setdefault(run.cell.backbone, []).append(value)
    gaps: dict[int, list[float]] = {}
    for run in runs:
        value = tables.column_value(run, unit)
        if value is not None and run.cell.backbone in starts:
            start = mean_std(starts[run.cell.backbone])[0]
            gaps.setdefault(run.cell.seed, []).append((value - start) * unit.scale)
    return {seed: higher_is_better(mean_std(of_seed)[0], unit) for seed, of_seed in gaps.items()}


def higher_is_better(difference: float, unit: Column) -> float:
    """Turn the sign where less is better, and round."""
    return round(-difference if unit.lower else difference, DIGITS) + 0.0


@dataclass(frozen=True)
class UnpairedName:
    """A row or column that is in no pair, and the reason."""

    name: str
    why: str


@dataclass(frozen=True)
class Unpaired:
    """Everything that is in no pair. `absent` are rows of the file that the grid does not have."""

    rows: tuple[UnpairedName, ...]
    absent: tuple[UnpairedName, ...]
    columns: tuple[UnpairedName, ...]
    published_rows: tuple[UnpairedName, ...]
    published_columns: tuple[UnpairedName, ...]


def find_unpaired(
    declared: Counterparts, pairs: Sequence[DifferencePair], methods: Iterable[str], columns: Collection[str],
    numbers: Sequence[PublishedNumber], halves: Collection[str],
) -> Unpaired:  # fmt: skip
    """Return everything that is in no pair; `methods` and `columns` are all of the grid, shown or not."""
    grid = [m for m in dict.fromkeys(methods) if m != PRETRAINED]
    return Unpaired(
        tuple(_find_rows(declared, pairs, grid, halves)),
        tuple(UnpairedName(m, "stands for published rows") for m in declared.row_halves if m not in grid),
        tuple(_find_columns(declared, pairs, columns, halves)),
        tuple(_find_published_rows(declared, pairs, grid, numbers, halves)),
        tuple(_find_published_columns(declared, pairs, numbers, halves)),
    )


def _find_rows(
    declared: Counterparts, pairs: Sequence[DifferencePair], grid: Sequence[str], halves: Collection[str]
) -> Iterator[UnpairedName]:
    paired = {p.row for p in pairs}
    for method in (m for m in grid if m not in paired):
        if method not in declared.row_halves:
            why = declared.find_reason("rows", method) or NOT_IN_FILE
        elif declared.row_halves[method] not in halves:
            why = HELD_OUT_REASON
        else:
            why = "no result, or no published column that is looked at"
        yield UnpairedName(method, why)


def _find_columns(
    declared: Counterparts, pairs: Sequence[DifferencePair], columns: Collection[str], halves: Collection[str]
) -> Iterator[UnpairedName]:
    declared_columns, paired = {c.name: c for c in declared.columns}, {p.column.name for p in pairs}
    for name in (n for n in dict.fromkeys((*columns, *declared_columns)) if n not in paired):
        if name not in declared_columns:
            why = declared.find_reason("columns", name) or NOT_IN_FILE
        elif declared.family_halves[declared_columns[name].family] not in halves:
            why = HELD_OUT_REASON
        else:
            why = NO_ROW if name in columns else "no run has it"
        yield UnpairedName(name, why)


def _find_published_rows(
    declared: Counterparts,
    pairs: Sequence[DifferencePair],
    grid: Sequence[str],
    numbers: Sequence[PublishedNumber],
    halves: Collection[str],
) -> Iterator[UnpairedName]:
    paired = {(s.paper, s.table, s.row) for p in pairs for s in p.printed}
    stands = {(s.paper, s.table, s.row): row for row, published_rows in declared.rows.items() for s in published_rows}
    grid_rows = {declared.aliases.get(row, row) for row in grid}
    for n in {(n.paper, n.table, n.row): n for n in numbers if n.method != PRETRAINED}.values():
        source = (n.paper, n.table, n.row)
        if source in paired:
            continue
        row = stands.get(source)
        if n.activation:
            why = f"scored with {n.activation.upper()}, not the activation of its weights"
        elif row is None:
            why = f"{n.method}: no row of the file" if n.method else "a model that is no method of ours"
        elif row not in grid_rows:
            why = f"stands for {row}, which this grid does not have"
        elif declared.row_halves[row] not in halves:
            why = f"stands for {row}: {HELD_OUT_REASON}"
        else:
            why = f"stands for {row}: none of its columns is in a pair" + (
                "" if HELD_OUT in halves else " that is shown"
            )
        yield UnpairedName(f"{n.paper}, {n.table}: {n.row}", why)


def _find_published_columns(
    declared: Counterparts, pairs: Sequence[DifferencePair], numbers: Sequence[PublishedNumber], halves: Collection[str]
) -> Iterator[UnpairedName]:
    paired = {s.column for p in pairs for s in p.printed}
    stands = {name: c for c in declared.columns for name in c.published}
    for name in dict.fromkeys(n.column for n in numbers if n.column not in paired):
        if name not in stands:
            yield UnpairedName(name, declared.find_reason("published", name) or NOT_IN_FILE)
        else:
            is_shown = declared.family_halves[stands[name].family] in halves
            yield UnpairedName(name, f"stands for {stands[name].name}: {NO_ROW if is_shown else HELD_OUT_REASON}")

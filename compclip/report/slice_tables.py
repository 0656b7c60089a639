"""Slices of items where a row differs from the pretrained model, or from the reference, otherwise than elsewhere.

All rows of a table, both comparisons, and all benchmarks of composition are one family: the largest |z| of every draw
of signs is taken over all of them, so that 95 of 100 tables without any such slice show none. Metrics are compared each
with itself. Trainings are not drawn: a slice is where these checkpoints differ. No claim uses one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from compclip.base.number_text import format_count
from compclip.config.cell import PRETRAINED
from compclip.prepare import item_slices
from compclip.prepare.benchmark_records import BenchmarkRecords
from compclip.report import slice_search
from compclip.report.escape import format_csv, to_markdown
from compclip.report.row_items import RowItems, join_items
from compclip.report.statistics import named_generator
from compclip.report.table_formats import csv_value
from compclip.report.table_heads import has_random_weights
from compclip.report.tables import ResultTable
from compclip.runs.item_outcomes import COMPOSITION

FLIPS = 500
MOST = 400  # slices of a benchmark; the largest are tried
SHOWN = 3  # slices of a row and comparison on the page
FIELDS = (
    "backbone", "data", "method", "reference", "benchmark", "slice", "items", "pictures", "difference", "elsewhere",
    "z", "p", "shown",
)  # fmt: skip


class SliceLine(NamedTuple):
    """A slice of a benchmark where two rows differ; `shown` where it tells more than the stronger ones do."""

    method: str
    reference: str
    benchmark: str
    slice: slice_search.Slice
    shown: bool


@dataclass(frozen=True)
class SliceTable:
    """A table's slices, the comparisons and slices that were tried, and the benchmarks that were not searched."""

    name: str
    backbone: str
    data: str
    lines: tuple[SliceLine, ...]
    items: tuple[RowItems, ...]
    comparisons: int
    tried: int
    left_out: int
    not_searched: tuple[str, ...]


class _Comparison(NamedTuple):
    method: str
    reference: str
    items: RowItems
    candidates: slice_search.Candidates
    scores: slice_search.SliceScores

    @property
    def difference_I(self) -> np.ndarray:
        return self.items.outcome_I[self.method] - self.items.outcome_I[self.reference]


def search_table(group: ResultTable, records: Mapping[str, BenchmarkRecords], reference: str = "") -> SliceTable | None:
    """Search a table's benchmarks of composition; None without texts of any, and where the backbone is random."""
    kinds = {name: result.kind for run in group.runs for name, result in run.results.items() if result.items}
    names = [name for name, kind in kinds.items() if kind == COMPOSITION]
    joined = {name: join_items(name, group.rows, records[name]) for name in names if name in records}
    items = [of_benchmark for of_benchmark in joined.values() if of_benchmark]
    if not items or has_random_weights(group):
        return None
    comparisons = [c for of_benchmark in items for c in _compare_rows(group, of_benchmark, reference)]
    candidates = {c.items.benchmark: c.candidates for c in comparisons}
    return SliceTable(
        name=group.name,
        backbone=group.backbone,
        data=group.data,
        lines=tuple(_select_lines(group, comparisons)),
        items=tuple(items),
        comparisons=len(comparisons),
        tried=sum(len(c.candidates.items_of) for c in comparisons),
        left_out=sum(c.left_out for c in candidates.values()),
        not_searched=tuple(name for name in names if not joined.get(name)),
    )


def list_pairs(methods: Sequence[str], reference: str) -> Iterator[tuple[str, str]]:
    """Yield each method beside the pretrained model, and beside the reference."""
    for method in methods:
        for against in dict.fromkeys((PRETRAINED, reference)):
            if method not in (PRETRAINED, against) and against in methods:
                yield method, against


def _compare_rows(group: ResultTable, items: RowItems, reference: str) -> Iterator[_Comparison]:
    candidates = slice_search.choose_candidates(items.unit_I, items.metric_I, items.slices(), MOST)
    methods = [row.method for row in group.rows if row.method in items.outcome_I]
    for method, against in list_pairs(methods, reference) if candidates.items_of else ():
        difference_I = items.outcome_I[method] - items.outcome_I[against]
        rng = named_generator("slices", items.benchmark)  # the same signs for all rows, which answer alike
        scores = slice_search.score_slices(candidates, difference_I, rng, FLIPS)
        yield _Comparison(method, against, items, candidates, scores)


def _select_lines(group: ResultTable, comparisons: Sequence[_Comparison]) -> Iterator[SliceLine]:
    """Yield the slices that depart, row by row, the strongest first; p is adjusted over all comparisons."""
    if not comparisons:
        return
    largest_P = np.max([c.scores.largest_P for c in comparisons], axis=0)
    order = {row.method: index for index, row in enumerate(group.rows)}
    ordered = sorted(comparisons, key=lambda c: (order[c.method], c.reference != PRETRAINED))
    for _, of_pair in groupby(ordered, key=lambda c: (c.method, c.reference)):
        slices = [
            (comparison, departing)
            for comparison in of_pair
            for departing in slice_search.select_slices(
                comparison.candidates, comparison.difference_I, comparison.scores.z_S, largest_P
            )
        ]
        yield from _mark_shown(sorted(slices, key=lambda line: -abs(line[1].z)))


def _mark_shown(slices: Sequence[tuple[_Comparison, slice_search.Slice]]) -> Iterator[SliceLine]:
    """Mark the first few of which no stronger one of the benchmark has half of the items, or half in it."""
    listed: list[tuple[str, np.ndarray]] = []
    for comparison, departing in slices:
        benchmark, items = comparison.items.benchmark, comparison.candidates.items_of[departing.name]
        overlaps = [len(np.intersect1d(items, earlier)) for name, earlier in listed if name == benchmark]
        sizes = [min(len(items), len(earlier)) for name, earlier in listed if name == benchmark]
        is_new = all(2 * overlap < size for overlap, size in zip(overlaps, sizes, strict=True))
        is_shown = is_new and len(listed) < SHOWN
        listed += [(benchmark, items)] if is_shown else []
        yield SliceLine(comparison.method, comparison.reference, benchmark, departing, is_shown)


# --- as text --------------------------------------------------------------------------------------------------


def describe_search(table: SliceTable) -> str:
    """Say what was searched, and what was not."""
    benchmarks = ", ".join(items.benchmark for items in table.items)
    text = (
        f"Searched: {format_count(table.comparisons, 'comparison')} of a row on a benchmark ({benchmarks}), "
        f"{table.tried:,} slices in all: {item_slices.SEARCHED}; each with {slice_search.LEAST} pictures at least."
    )
    if table.left_out:
        text += f" {table.left_out:,} smaller slices were not tried."
    if table.not_searched:
        text += f" Not searched, because data/records has no texts of what was scored: {', '.join(table.not_searched)}."
    remaining = sum(not line.shown for line in table.lines)
    return text + (f" {remaining:,} further slices stand in slices.csv." if remaining else "")


def layout_slices(table: SliceTable) -> list[dict[str, str]]:
    """Lay out the shown slices for the page and Markdown, in points."""
    return [
        {
            "method": line.method,
            "reference": line.reference,
            "benchmark": line.benchmark,
            "slice": line.slice.name,
            "pictures": f"{line.slice.units:,}",
            "there": _format_points(line.slice.difference),
            "elsewhere": _format_points(line.slice.elsewhere),
            "css": "better" if line.slice.z > 0 else "worse",
            "p": f"{line.slice.p:.3f}",
        }
        for line in table.lines
        if line.shown
    ]


def group_slices(table: SliceTable) -> list[tuple[str, list[dict[str, str]]]]:
    """Group the shown slices by method, in the table's order."""
    return [(method, list(lines)) for method, lines in groupby(layout_slices(table), key=lambda line: line["method"])]


def _format_points(difference: float) -> str:
    text = f"{100 * difference:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", "−")


def format_slices_csv(tables: Sequence[SliceTable]) -> str:
    """Format every slice that departs, differences in the metrics' own unit."""
    rows = []
    for table in tables:
        for line in table.lines:
            departing = line.slice
            numbers = (departing.difference, departing.elsewhere, departing.z, departing.p)
            head = (table.backbone, table.data, line.method, line.reference, line.benchmark, departing.name)
            rows.append([*head, departing.items, departing.units, *map(csv_value, numbers), int(line.shown)])
    return format_csv([FIELDS, *rows])


def format_slices_markdown(tables: Sequence[SliceTable]) -> str:
    """Format the shown slices as tables; empty without a search."""
    text = ""
    for table in tables:
        text += f"\n## Slices: {to_markdown(table.name)}\n\n{describe_search(table)}\n"
        if lines := layout_slices(table):
            text += "\n| method | against | benchmark | slice | pictures | there | elsewhere | p |\n"
            text += "| --- | --- | --- | --- | ---: | ---: | ---: | ---: |\n"
        for line in lines:
            names = " | ".join(to_markdown(line[name]) for name in ("method", "reference", "benchmark", "slice"))
            text += f"| {names} | {line['pictures']} | {line['there']} | {line['elsewhere']} | {line['p']} |\n"
    return text

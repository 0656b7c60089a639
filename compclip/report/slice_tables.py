"""Items under every row of a table, joined with their records, for the report, its gallery and `compclip items`.

And slices of them where a row differs from the pretrained model, or from the reference, otherwise than elsewhere.

I items: a record under a metric. Cosines, metrics of which less is better and those that repeat others' outcomes are
left out, so that a higher outcome is better everywhere. All rows of a table, both comparisons, and all benchmarks of
composition are one family: the largest |z| of every draw of signs is taken over all of them, so that 95 of 100 tables
without any such slice show none. Metrics are compared each with itself. Trainings are not drawn: a slice is where these
checkpoints differ. No claim uses one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import ne
from typing import NamedTuple

import numpy as np

from compclip.base.messages import format_count
from compclip.config.cell import PRETRAINED
from compclip.prepare import item_slices
from compclip.prepare.benchmark_records import BenchmarkRecords
from compclip.report import slice_search
from compclip.report.escape import format_csv
from compclip.report.statistics import item_units, named_generator
from compclip.report.tables import MethodRow, ResultTable, has_random_weights
from compclip.runs.item_outcomes import COMPOSITION, RETRIEVAL, RETRIEVED, Items
from compclip.runs.result_files import FinishedRun, Result

# --- items under every method of a table, with the records asked


class RetrievedCaption(NamedTuple):
    """A caption that a model puts first for a picture."""

    text: str
    score: float
    is_right: bool


@dataclass(frozen=True)
class RowItems:
    """Items that all methods have: metric, id, record, unit, and each method's mean outcome over its runs."""

    benchmark: str
    metrics: tuple[str, ...]
    records: BenchmarkRecords
    ids: tuple[str, ...]
    metric_I: np.ndarray
    record_I: np.ndarray
    unit_I: np.ndarray
    outcome_I: dict[str, np.ndarray]
    first_run: dict[str, FinishedRun]

    def name(self, index: int) -> str:
        """Return the metric and the id of an item."""
        return f"{self.metrics[self.metric_I[index]]}/{self.ids[index]}"

    def texts(self, index: int) -> tuple[str, ...]:
        """Return the texts of an item."""
        return self.records.item_texts(self.metrics[self.metric_I[index]], self.ids[index])

    def difference(self, method: str, reference: str = PRETRAINED) -> np.ndarray:
        """Return how much better a method is than another on each item."""
        return self.outcome_I[method] - self.outcome_I[reference]

    def order_decided(self, method: str, reference: str, is_won: bool, count: int) -> list[int]:
        """Return the items with the largest difference of one sign, none of a picture twice.

        Equals are in a random order that is always the same.
        """
        gain_I = self.difference(method, reference) * (1 if is_won else -1)
        rng = named_generator("gallery", self.benchmark, method)
        order = np.lexsort((rng.random(len(gain_I)), -gain_I))
        chosen: dict[int, int] = {}
        for index in order[: 20 * count]:
            if gain_I[index] > 0:
                chosen.setdefault(int(self.unit_I[index]), int(index))
        return list(chosen.values())[:count]

    def retrieved(self, index: int, method: str, count: int) -> list[RetrievedCaption]:
        """Return the first captions that a method's first run retrieves for a picture; none where no file has them."""
        metric = self.metrics[self.metric_I[index]]
        items = self.first_run[method].results[self.benchmark].items[metric]
        if not items.retrieved:
            return []
        row = items.ids.index(self.ids[index])
        captions = []
        for number, score in zip(items.retrieved.number_NK[row], items.retrieved.score_NK[row], strict=True):
            caption = items.retrieved.candidates[number]
            text = "".join(self.records.item_texts(RETRIEVED[1], caption))
            is_right = caption.rpartition("#")[0] == self.ids[index]
            captions.append(RetrievedCaption(text, float(score), is_right))
        return captions[:count]

    def metric_slices(self) -> dict[str, np.ndarray]:
        """Return the items of each metric."""
        return {f"metric: {name}": np.flatnonzero(self.metric_I == m) for m, name in enumerate(self.metrics)}

    def slices(self) -> dict[str, np.ndarray]:
        """Return the items of every slice of the records."""
        order = np.argsort(self.record_I, kind="stable")
        starts = np.searchsorted(self.record_I[order], np.arange(len(self.records.names) + 1))
        return {name: _expand(record_R, order, starts) for name, record_R in self.records.slices.items()}


def _expand(record_R: np.ndarray, order: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the items of these records; `order` has the items record by record, `starts` where each record begins."""
    counts = starts[record_R + 1] - starts[record_R]
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.repeat(starts[record_R], counts) + offset]


def join_items(
    benchmark: str, rows: Sequence[MethodRow], records: BenchmarkRecords, metrics: Sequence[str] = ()
) -> RowItems | None:
    """Join the results of a table's rows; None where they were scored on other files, or share no item.

    Without `metrics` those are joined that have items of their own, of which a higher outcome is better.
    """
    results = {row.method: [run.results[benchmark] for run in row.runs if benchmark in run.results] for row in rows}
    results = {method: of_row for method, of_row in results.items() if of_row}
    every = [result for of_row in results.values() for result in of_row]
    if not every or {result.fingerprint for result in every} - records.fingerprints:
        return None
    joined: list[tuple[int, str, int, int | str]] = []
    values: dict[str, list[np.ndarray]] = {method: [] for method in results}
    result = every[0]
    unranked = result.lower | result.scores
    if not metrics:
        metrics = [m for m, items in result.items.items() if m not in unranked and not is_repetition(m, items, result)]
    for m, metric in enumerate(metrics):
        ids = shared_ids([result.items.get(metric) for result in every])
        unit_of = dict(zip(result.items[metric].ids, item_units(result.items[metric]), strict=True))
        numbers = {key: record.number for key in ids if (record := records.find(metric, key))}
        joined += [(m, key, number, unit_of[key]) for key, number in numbers.items()]
        for method, of_row in results.items():
            values[method].append(mean_outcomes([result.items[metric] for result in of_row], list(numbers)))
    if not joined:
        return None
    metric_numbers, keys, record_numbers, units = zip(*joined, strict=True)
    unit_numbers = {unit: index for index, unit in enumerate(dict.fromkeys(units))}
    return RowItems(
        benchmark=benchmark,
        metrics=tuple(metrics),
        records=records,
        ids=keys,
        metric_I=np.array(metric_numbers),
        record_I=np.array(record_numbers),
        unit_I=np.array([unit_numbers[unit] for unit in units]),
        outcome_I={method: np.concatenate(arrays) for method, arrays in values.items()},
        first_run={row.method: run for row in rows for run in reversed(row.runs) if benchmark in run.results},
    )


def is_repetition(metric: str, items: Items, result: Result) -> bool:
    """Return whether a metric repeats outcomes of others: a part of its items, or a pool of theirs."""
    prefixes = {item.partition("/")[0] for item in items.ids}
    return "/" in metric or (prefixes <= result.items.keys() and all("/" in item for item in items.ids))


def shared_ids(every: Sequence[Items | None]) -> Sequence[str]:
    """Return the ids that all results have, in the first one's order."""
    lists = [items.ids if items else () for items in every]
    if all(ids is lists[0] or ids == lists[0] for ids in lists):
        return lists[0]
    shared = set(lists[0]).intersection(*lists)
    return [key for key in lists[0] if key in shared]


def mean_outcomes(seeds: Sequence[Items], ids: Sequence[str]) -> np.ndarray:
    """Return the mean outcome over seeds of these items."""
    columns = []
    for items in seeds:
        if len(items.ids) != len(ids) or any(map(ne, items.ids, ids)):
            index_of = {key: index for index, key in enumerate(items.ids)}
            items = items.at([index_of[key] for key in ids])
        columns.append(items.values)
    return np.mean(columns, axis=0)


# --- slices of the table's items

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
    """A table's slices, the comparisons and slices that were tried, and the benchmarks that were not searched.

    `items` are those that were searched, `pictures` those of retrieval, which retrieve captions.
    """

    name: str
    backbone: str
    data: str
    lines: tuple[SliceLine, ...]
    items: tuple[RowItems, ...]
    pictures: tuple[RowItems, ...]
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
        return self.items.difference(self.method, self.reference)


def search_table(group: ResultTable, records: Mapping[str, BenchmarkRecords], reference: str = "") -> SliceTable | None:
    """Search a table's benchmarks of composition; None without texts of any, and where the backbone is random."""
    kinds = {name: result.kind for run in group.runs for name, result in run.results.items() if result.items}
    names = [name for name, kind in kinds.items() if kind == COMPOSITION]
    joined = {name: join_items(name, group.rows, records[name]) for name in names if name in records}
    items = [of_benchmark for of_benchmark in joined.values() if of_benchmark]
    if not items or has_random_weights(group):
        return None
    retrievals = [name for name, kind in kinds.items() if kind == RETRIEVAL and name in records]
    pictures = [join_items(name, group.rows, records[name], RETRIEVED[:1]) for name in retrievals]
    comparisons = [c for of_benchmark in items for c in _compare_rows(group, of_benchmark, reference)]
    candidates = {c.items.benchmark: c.candidates for c in comparisons}
    return SliceTable(
        name=group.name,
        backbone=group.backbone,
        data=group.data,
        lines=tuple(_select_lines(group, comparisons)),
        items=tuple(items),
        pictures=tuple(filter(None, pictures)),
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
        difference_I = items.difference(method, against)
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
        benchmark = comparison.items.benchmark
        items = comparison.candidates.items_of[departing.name]
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
    """Lay out the shown slices for the page, in points."""
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
            rows.append([*head, departing.items, departing.units, *numbers, int(line.shown)])
    return format_csv([FIELDS, *rows])

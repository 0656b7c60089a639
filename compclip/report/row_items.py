"""The outcomes of a benchmark of composition under every method of a table, item by item, with the records asked.

I items: a record under a metric. Cosines, metrics of which less is better and those that repeat others' outcomes are
left out, so that a higher outcome is better everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import ne

import numpy as np

from compclip.config.cell import Cell
from compclip.prepare.benchmark_records import BenchmarkRecords, RecordFinder
from compclip.report.statistics import item_units
from compclip.report.tables import MethodRow
from compclip.runs.item_outcomes import Items
from compclip.runs.result_files import Result


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
    first_run: dict[str, Cell]

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


def join_items(benchmark: str, rows: Sequence[MethodRow], records: BenchmarkRecords) -> RowItems | None:
    """Join the results of a table's rows; None where they were scored on other files, or share no item."""
    results = {row.method: [run.results[benchmark] for run in row.runs if benchmark in run.results] for row in rows}
    results = {method: of_row for method, of_row in results.items() if of_row}
    every = [result for of_row in results.values() for result in of_row]
    if not every or {result.fingerprint for result in every} - records.fingerprints:
        return None
    finder = RecordFinder(records.names)
    joined: list[tuple[int, str, int, int | str]] = []
    values: dict[str, list[np.ndarray]] = {method: [] for method in results}
    metrics = tuple(name for name in every[0].items if is_searched(name, every[0]))
    for m, metric in enumerate(metrics):
        ids = _shared_ids([result.items.get(metric) for result in every])
        unit_of = dict(zip(every[0].items[metric].ids, item_units(every[0].items[metric]), strict=True))
        numbers = {key: record.number for key in ids if (record := finder.find(metric, key))}
        joined += [(m, key, number, unit_of[key]) for key, number in numbers.items()]
        for method, of_row in results.items():
            values[method].append(_mean_values([result.items[metric] for result in of_row], list(numbers)))
    if not joined:
        return None
    metric_numbers, keys, record_numbers, units = zip(*joined, strict=True)
    unit_numbers = {unit: index for index, unit in enumerate(dict.fromkeys(units))}
    return RowItems(
        benchmark,
        metrics,
        records,
        keys,
        np.array(metric_numbers),
        np.array(record_numbers),
        np.array([unit_numbers[unit] for unit in units]),
        {method: np.concatenate(arrays) for method, arrays in values.items()},
        {row.method: run.cell for row in rows for run in reversed(row.runs) if benchmark in run.results},
    )


def is_searched(metric: str, result: Result) -> bool:
    """Return whether a metric has items of its own, of which a higher outcome is better."""
    return not (
        metric in result.lower or metric in result.scores or is_repetition(metric, result.items[metric], result)
    )


def is_repetition(metric: str, items: Items, result: Result) -> bool:
    """Return whether a metric repeats outcomes of others: a part of its items, or a pool of theirs."""
    prefixes = {item.partition("/")[0] for item in items.ids}
    return "/" in metric or (prefixes <= result.items.keys() and all("/" in item for item in items.ids))


def _shared_ids(every: Sequence[Items | None]) -> Sequence[str]:
    """Return the ids that all results have, in the first one's order."""
    lists = [items.ids if items else () for items in every]
    if all(ids is lists[0] or ids == lists[0] for ids in lists):
        return lists[0]
    shared = set(lists[0]).intersection(*lists)
    return [key for key in lists[0] if key in shared]


def _mean_values(seeds: Sequence[Items], ids: Sequence[str]) -> np.ndarray:
    """Return the mean outcome over seeds of these items."""
    columns = []
    for items in seeds:
        if len(items.ids) != len(ids) or any(map(ne, items.ids, ids)):
            index_of = {key: index for index, key in enumerate(items.ids)}
            items = items.at([index_of[key] for key in ids])
        columns.append(items.values)
    return np.mean(columns, axis=0)

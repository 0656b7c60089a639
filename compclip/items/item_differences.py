"""Join the outcomes of two rows of the grid item by item, with the texts that were asked, and name slices of them.

I items. An item's difference is the mean over seeds of the one row's outcomes minus that of the other's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compclip.base.errors import UserError
from compclip.prepare.benchmark_records import RecordFinder
from compclip.prepare.item_slices import list_group_slices, list_size_slices, list_text_slices
from compclip.prepare.record_writer import StoredRecord, read_sizes
from compclip.report.slice_tables import is_repetition, mean_outcomes, shared_ids
from compclip.report.statistics import item_units
from compclip.runs.result_files import Result
from compclip.track.item_tables import RecordTexts


@dataclass(frozen=True)
class JoinedItems:
    """Items of one benchmark that both rows have: metric and id, texts, unit, and mean outcome over seeds of each."""

    keys: tuple[tuple[str, str], ...]
    texts: tuple[tuple[str, ...], ...]
    unit_I: np.ndarray
    ours_I: np.ndarray
    theirs_I: np.ndarray

    @property
    def difference_I(self) -> np.ndarray:
        """Ours minus theirs."""
        return self.ours_I - self.theirs_I


def join_rows(
    ours: Sequence[Result], theirs: Sequence[Result], texts: RecordTexts, metrics: Sequence[str] = ()
) -> JoinedItems:
    """Join the results of one benchmark of two rows, a result a seed.

    `metrics` alone, or else all that have items of their own: no groups of items, no pools. Raises UserError where the
    rows were scored on other files, or share no item.
    """
    fingerprints = {result.fingerprint for result in (*ours, *theirs)}
    if len(fingerprints) > 1:
        raise UserError(f"{ours[0].benchmark}: the rows were scored on different files; score them again")
    every = [name for name, items in ours[0].items.items() if not is_repetition(name, items, ours[0])]
    unknown = [name for name in metrics if name not in ours[0].items]
    if unknown:
        raise UserError(
            f"{ours[0].benchmark}: keeps no items of {unknown[0]!r}; give one of {', '.join(ours[0].items)}"
        )
    joined: list[tuple[str, str, int | str, float, float]] = []
    for metric in metrics or every:
        ids = shared_ids([result.items.get(metric) for result in (*ours, *theirs)])
        first = ours[0].items[metric]
        unit_of = dict(zip(first.ids, item_units(first), strict=True))
        ours_I = mean_outcomes([result.items[metric] for result in ours], ids) if ids else ()
        theirs_I = mean_outcomes([result.items[metric] for result in theirs], ids) if ids else ()
        for item, our_value, their_value in zip(ids, ours_I, theirs_I, strict=True):
            joined.append((metric, item, unit_of[item], our_value, their_value))
    if not joined:
        raise UserError(f"{ours[0].benchmark}: the rows share no item of {', '.join(metrics or every)}")
    joined.sort(key=lambda line: line[:2])
    names, items, units, our_values, their_values = zip(*joined, strict=True)
    keys = tuple(zip(names, items, strict=True))
    texts_of_items = tuple(texts.find(*key) for key in keys)
    numbers = {unit: index for index, unit in enumerate(sorted(set(units), key=str))}
    unit_I = np.array([numbers[unit] for unit in units])
    return JoinedItems(keys, texts_of_items, unit_I, np.array(our_values), np.array(their_values))


def list_slices(items: JoinedItems) -> dict[str, list[int]]:
    """Name slices of the items: their metric, where there are several, and those of texts (`prepare.item_slices`)."""
    members: dict[str, list[int]] = {}
    for index, (metric, _) in enumerate(items.keys):
        members.setdefault(f"metric: {metric}", []).append(index)
    return (members if len(members) > 1 else {}) | list_text_slices(items.texts)


def list_record_slices(items: JoinedItems, records: Sequence[StoredRecord]) -> dict[str, list[int]]:
    """Name slices of the items by the benchmark's groups and by the sizes of the records' first pictures."""
    finder = RecordFinder(records)
    record_I = [finder.find(*key) for key in items.keys]
    size_of = {id(r): size for r, size in zip(records, read_sizes(records), strict=True)}
    groups = list_group_slices(record.groups if record else () for record in record_I)
    return groups | list_size_slices([size_of[id(record)] if record else (0, 0) for record in record_I])


def list_decided_items(items: JoinedItems, count: int) -> tuple[list[int], list[int]]:
    """Return the items that the first row wins and those that it loses by most, each at most `count`."""
    order = np.lexsort((np.arange(len(items.keys)), -items.difference_I))
    won = [int(i) for i in order[:count] if items.difference_I[i] > 0]
    lost = [int(i) for i in order[::-1][:count] if items.difference_I[i] < 0]
    return won, lost


def describe_sides(items: JoinedItems) -> Mapping[str, float]:
    """Return both rows' means over the items and the difference."""
    return {
        "ours": float(items.ours_I.mean()),
        "theirs": float(items.theirs_I.mean()),
        "difference": float(items.difference_I.mean()),
    }

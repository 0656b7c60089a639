"""Join the outcomes of two rows of the grid item by item, with the texts that were asked, and name slices of them.

I items. An item's difference is the mean over seeds of the one row's outcomes minus that of the other's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compclip.base.errors import UserError
from compclip.prepare.benchmark_records import RecordFinder
from compclip.prepare.item_slices import list_group_slices, list_size_slices, list_text_slices
from compclip.prepare.record_writer import StoredRecord, read_sizes
from compclip.report.slice_tables import is_repetition
from compclip.report.statistics import item_units
from compclip.runs.item_outcomes import Items
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
    if unknown := [name for name in metrics if name not in ours[0].items]:
        raise UserError(
            f"{ours[0].benchmark}: keeps no items of {unknown[0]!r}; give one of {', '.join(ours[0].items)}"
        )
    keys: list[tuple[str, str]] = []
    units: list[int | str] = []
    sides: tuple[list[float], list[float]] = ([], [])
    for metric in metrics or every:
        of_rows = [_mean_outcomes([result.items.get(metric) for result in row]) for row in (ours, theirs)]
        unit_of = dict(zip(ours[0].items[metric].ids, item_units(ours[0].items[metric]), strict=True))
        for item in of_rows[0].keys() & of_rows[1].keys():
            keys.append((metric, item))
            units.append(unit_of[item])
        for side, outcomes in zip(sides, of_rows, strict=True):
            side += [outcomes[item] for _, item in keys[len(side) :]]
    if not keys:
        raise UserError(f"{ours[0].benchmark}: the rows share no item of {', '.join(metrics or every)}")
    order = sorted(range(len(keys)), key=keys.__getitem__)
    number = {unit: i for i, unit in enumerate(sorted(set(units), key=str))}
    return JoinedItems(
        tuple(keys[i] for i in order),
        tuple(texts.find(*keys[i]) for i in order),
        np.array([number[units[i]] for i in order]),
        *(np.array([side[i] for i in order]) for side in sides),
    )


def _mean_outcomes(seeds: Sequence[Items | None]) -> dict[str, float]:
    """Return the mean outcome over seeds of each item that all seeds have."""
    totals: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for items in seeds:
        for item, value in zip(items.ids, items.values.tolist(), strict=True) if items else ():
            totals[item] += value
            counts[item] += 1
    return {item: totals[item] / len(seeds) for item, count in counts.items() if count == len(seeds)}


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

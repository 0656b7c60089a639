"""Mean, spread, ranks, and the outcomes of items paired between seeds and models.

S seeds, I items.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt

import numpy as np

from compclip.runs.item_outcomes import CAPTION, Items

LISTS = 256  # lists of ids whose pictures are remembered


@dataclass(frozen=True)
class Interval:
    """A difference with its 95 % interval; `items` is how many pairs it rests on."""

    estimate: float
    low: float
    high: float
    items: int

    @property
    def sign(self) -> int:
        """+1 or -1 where the interval excludes 0, else 0."""
        return int(self.low > 0) - int(self.high < 0)


def mean_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Return mean and sample standard deviation (ddof 1); the deviation of a single value is None."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, None
    return mean, sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))


def rank_values(values: Sequence[float | None], lower: bool = False, digits: int = 3) -> list[int]:
    """Rank values: 1 for the best, 2 for the second best, 0 otherwise; values equal to `digits` decimals share a rank.

    None has no rank, and a single value has nothing to be better than.
    """
    rounded = [None if v is None else round(v, digits) for v in values]
    order = sorted({v for v in rounded if v is not None}, reverse=not lower)
    if sum(v is not None for v in rounded) < 2:
        return [0] * len(rounded)
    return [0 if v is None or v not in order[:2] else order.index(v) + 1 for v in rounded]


def align_items(items: Sequence[Items]) -> tuple[Items, np.ndarray]:
    """Return the first seed's items that all seeds have, and each seed's outcomes of them, shape S x I."""
    first = items[0]
    if all(seed_items.ids == first.ids for seed_items in items):
        return first, np.stack([i.values for i in items])
    tables = [dict(zip(i.ids, i.values, strict=True)) for i in items]
    shared = first.at([position for position, i in enumerate(first.ids) if all(i in table for table in tables)])
    return shared, np.array([[table[i] for i in shared.ids] for table in tables])


def subtract_items(ours: Items, theirs: Items) -> Items:
    """Return ours - theirs for every id that both have."""
    if ours.ids == theirs.ids:
        return replace(ours, values=ours.values - theirs.values)
    their_values = dict(zip(theirs.ids, theirs.values, strict=True))
    shared = ours.at([position for position, i in enumerate(ours.ids) if i in their_values])
    return replace(shared, values=shared.values - np.array([their_values[i] for i in shared.ids]))


def item_units(items: Items) -> tuple[int, ...] | tuple[str, ...]:
    """Return what each item is drawn with: the unit of its result file, else of captions their picture, else itself."""
    return items.units or _pictures_of_captions(items.ids)


@lru_cache(maxsize=LISTS)
def _pictures_of_captions(ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return the picture of every caption; where not all are captions, the items themselves."""
    captions = [CAPTION.fullmatch(i) for i in ids]
    return ids if None in captions else tuple(c[1] for c in captions if c)


def named_generator(*names: str) -> np.random.Generator:
    """Return the generator of one number's draws, a function of its names alone: another column changes no interval."""
    return np.random.default_rng(zlib.crc32("\0".join(names).encode()))

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

from compclip.runs.items import CAPTION, Items

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
    """Mean and sample standard deviation (ddof 1); the deviation of a single value is None."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, None
    return mean, sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))


def ranks(values: Sequence[float | None], lower: bool = False, digits: int = 3) -> list[int]:
    """1 for the best, 2 for the second best, 0 otherwise; values equal to `digits` decimals share a rank.

    None has no rank, and a single value has nothing to be better than.
    """
    shown = [None if v is None else round(v, digits) for v in values]
    order = sorted({v for v in shown if v is not None}, reverse=not lower)
    if sum(v is not None for v in shown) < 2:
        return [0] * len(shown)
    return [0 if v is None or v not in order[:2] else order.index(v) + 1 for v in shown]


def aligned(items: Sequence[Items]) -> tuple[Items, np.ndarray]:
    """The first seed's items that all seeds have, in its order, and each seed's outcomes of them, shape S x I."""
    first = items[0]
    if all(other.ids == first.ids for other in items):
        return first, np.stack([i.values for i in items])
    tables = [dict(zip(i.ids, i.values, strict=True)) for i in items]
    shared = first.at([place for place, i in enumerate(first.ids) if all(i in table for table in tables)])
    return shared, np.array([[table[i] for i in shared.ids] for table in tables])


def paired(ours: Items, theirs: Items) -> Items:
    """ours - theirs for every id that both have."""
    if ours.ids == theirs.ids:
        return replace(ours, values=ours.values - theirs.values)
    other = dict(zip(theirs.ids, theirs.values, strict=True))
    shared = ours.at([place for place, i in enumerate(ours.ids) if i in other])
    return replace(shared, values=shared.values - np.array([other[i] for i in shared.ids]))


def units(items: Items) -> tuple[int, ...] | tuple[str, ...]:
    """What each item is drawn with: the unit of its result file, else of captions their picture, else itself."""
    return items.units or _named(items.ids)


@lru_cache(maxsize=LISTS)
def _named(ids: tuple[str, ...]) -> tuple[str, ...]:
    """The picture of every caption; where not all are captions, the items themselves."""
    captions = [CAPTION.fullmatch(i) for i in ids]
    return ids if None in captions else tuple(c[1] for c in captions if c)


def generator(*names: str) -> np.random.Generator:
    """The generator of one number's draws, a function of its names alone: another column changes no interval."""
    return np.random.default_rng(zlib.crc32("\0".join(names).encode()))

"""Mean, spread, ranks, and paired bootstrap intervals.

S seeds, I items, G pictures, B bootstrap draws.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt

import numpy as np

from compclip.runs.items import CAPTION, Items

DRAWS = 10_000
LEVEL = 0.95
FEW = 64  # up to so many different values a draw of counts is cheaper than a draw of items
BLOCK = 64  # draws of items at a time
LISTS = 256  # lists of ids whose pictures are remembered


@dataclass(frozen=True)
class Interval:
    """A difference with its bootstrap interval; `items` is how many pairs it rests on."""

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


def average(items: Sequence[Items]) -> Items:
    """Each item's mean outcome over seeds, for the ids that all seeds have, in the first one's order."""
    shared, outcome_SI = aligned(items)
    return replace(shared, values=outcome_SI.mean(axis=0))


def paired(ours: Items, theirs: Items) -> Items:
    """ours - theirs for every id that both have."""
    if ours.ids == theirs.ids:
        return replace(ours, values=ours.values - theirs.values)
    other = dict(zip(theirs.ids, theirs.values, strict=True))
    shared = ours.at([place for place, i in enumerate(ours.ids) if i in other])
    return replace(shared, values=shared.values - np.array([other[i] for i in shared.ids]))


def bootstrap(items: Items, rng: np.random.Generator, draws: int = DRAWS) -> np.ndarray:
    """Means of `draws` samples of units with replacement, shape B: pictures with all that is asked about them.

    A sample's mean depends only on how often each different value was drawn, and those counts are multinomial:
    outcomes of a few seeds have few different values, so that this draws tens of numbers instead of thousands.
    """
    total_G2 = _totals(items)
    kind_V2, counts_V = _kinds(total_G2)
    size = len(total_G2)
    if len(kind_V2) <= FEW:
        drawn_B2 = rng.multinomial(size, counts_V / size, size=draws) @ kind_V2
    else:
        drawn_B2 = np.concatenate([_sums(total_G2, rng, min(BLOCK, draws - done)) for done in range(0, draws, BLOCK)])
    return drawn_B2[:, 0] / drawn_B2[:, 1]


def _kinds(total_G2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different rows in ascending order, and how often each stands there."""
    if (total_G2[:, 1] == total_G2[0, 1]).all():  # sorting one column takes a tenth of the time
        value_V, counts_V = np.unique(total_G2[:, 0], return_counts=True)
        return np.stack([value_V, np.full(len(value_V), total_G2[0, 1])], axis=1), counts_V
    return np.unique(total_G2, axis=0, return_counts=True)


def _sums(total_G2: np.ndarray, rng: np.random.Generator, draws: int) -> np.ndarray:
    """Sums over samples with replacement, shape B x 2."""
    picked_BG = rng.integers(0, len(total_G2), (draws, len(total_G2)))
    sum_G, number_G = total_G2.T.copy()
    if (number_G == number_G[0]).all():
        drawn_B = np.full(draws, number_G[0] * len(number_G))
    else:
        drawn_B = number_G[picked_BG].sum(axis=1)
    return np.stack([sum_G[picked_BG].sum(axis=1), drawn_B], axis=1)


def _totals(items: Items) -> np.ndarray:
    """Sum and number of the outcomes that are drawn together, shape G x 2: those of a picture are not independent."""
    unit_I = _numbered(units(items))
    if unit_I is None:
        return np.stack([items.values, np.ones(len(items.values))], axis=1)
    return np.stack([np.bincount(unit_I, items.values), np.bincount(unit_I)], axis=1)


@lru_cache(maxsize=LISTS)
def _numbered(unit_I: tuple[int, ...] | tuple[str, ...]) -> np.ndarray | None:
    """Each item's unit, counted from 0; None where each item is one by itself."""
    different, number_I = np.unique(unit_I, return_inverse=True)
    return number_I if len(different) < len(unit_I) else None


def units(items: Items) -> tuple[int, ...] | tuple[str, ...]:
    """What each item is drawn with: the unit of its result file, else of captions their picture, else itself."""
    return items.units or _named(items.ids)


@lru_cache(maxsize=LISTS)
def _named(ids: tuple[str, ...]) -> tuple[str, ...]:
    """The picture of every caption; where not all are captions, the items themselves."""
    captions = [CAPTION.fullmatch(i) for i in ids]
    return ids if None in captions else tuple(c[1] for c in captions if c)


def interval(estimate: float, draws_B: np.ndarray, items: int, level: float = LEVEL) -> Interval:
    """The percentile interval of `draws_B` around `estimate`."""
    low, high = np.quantile(draws_B, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high), items)


def generator(*names: str) -> np.random.Generator:
    """The generator of one number's draws, a function of its names alone: another column changes no interval."""
    return np.random.default_rng(zlib.crc32("\0".join(names).encode()))

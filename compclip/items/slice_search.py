"""Find slices of items where two rows differ otherwise than on all items, with the family-wise error held.

I items, S slices, U units (pictures), P sign flips. The residual of an item is its difference minus the mean of all.
Of a slice z is the sum of its units' residuals over the root of the sum of their squares, or of what all items'
variance lets one expect of them, whichever is larger: a slice in which nothing happens to differ is no finding. Under
the null hypothesis that slices tell nothing, a unit's residuals might as well have the other sign: flipping the signs
of whole units gives the distribution of the largest |z| of all slices (maxT of Westfall and Young, 1993, by the wild
bootstrap's signs), to which each slice is compared. It holds the chance of one false slice among all, whatever slices
have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np

LEVEL = 0.05
FLIPS = 2_000
LEAST = 10  # units inside a slice, and outside
MOST = 4_000  # slices; the largest are tried
BYTES = 256 << 20  # of the matrix of units and slices


@dataclass(frozen=True)
class Slice:
    """A named part of the items, the difference there and elsewhere; `p` is adjusted for all slices tried."""

    name: str
    items: int
    units: int
    difference: float
    elsewhere: float
    p: float


@dataclass(frozen=True)
class SliceSearch:
    """The slices that depart, the least p first, how many were tried, and how many more there were."""

    slices: tuple[Slice, ...]
    tried: int
    left_out: int


def search_slices(
    difference_I: np.ndarray,
    unit_I: np.ndarray,
    members: Mapping[str, Sequence[int]],
    rng: np.random.Generator,
    level: float = LEVEL,
    flips: int = FLIPS,
) -> SliceSearch:
    """Return the slices whose difference departs from that of all items, at a family-wise error of `level`.

    `unit_I` numbers each item's unit from 0; `members` has the items of each slice. Slices of the same items are one,
    under the first name. Memory is units times slices, at most `BYTES`; time also times `flips`.
    """
    units = int(unit_I.max()) + 1 if len(unit_I) else 0
    candidates = list(_distinct(members, unit_I, units))
    most = max(1, min(MOST, BYTES // (4 * max(1, units))))
    tried = sorted(candidates, key=lambda c: -len(c[1]))[:most]
    if not tried:
        return SliceSearch((), 0, 0)
    residual_I = difference_I - difference_I.mean()
    sum_US = np.zeros((units, len(tried)), np.float32)
    for s, (_, items) in enumerate(tried):
        np.add.at(sum_US[:, s], unit_I[items], residual_I[items])
    expected_S = np.array([len(items) for _, items in tried]) * np.mean(residual_I**2)
    norm_S = np.sqrt(np.maximum((sum_US.astype(np.float64) ** 2).sum(axis=0), expected_S))
    scale_S = np.divide(1, norm_S, out=np.zeros_like(norm_S), where=norm_S > 1e-9)
    z_S = np.abs(sum_US.sum(axis=0, dtype=np.float64)) * scale_S
    largest_P = _flip_signs(sum_US, scale_S, rng, flips)
    flipped_S = (1 + (largest_P[:, None] >= z_S - 1e-9).sum(axis=0)) / (1 + flips)
    alone_S = [erfc(z / sqrt(2)) for z in z_S]  # for where no slice has enough that differs to flip
    p_S = np.maximum(flipped_S, alone_S)
    departing = [
        _describe(name, items, difference_I, unit_I, float(p_S[s]))
        for s, (name, items) in enumerate(tried)
        if p_S[s] <= level
    ]
    departing.sort(key=lambda s: (s.p, -abs(s.difference - s.elsewhere)))
    return SliceSearch(tuple(departing), len(tried), len(candidates) - len(tried))


def _distinct(members: Mapping[str, Sequence[int]], unit_I: np.ndarray, units: int) -> Iterable[tuple[str, np.ndarray]]:
    """Yield the slices that have `LEAST` units inside and outside, each set of items once."""
    seen: set[bytes] = set()
    for name, indices in members.items():
        items = np.unique(np.asarray(indices, dtype=np.int64))
        inside = len(np.unique(unit_I[items])) if len(items) else 0
        outside = units if len(items) == 0 else len(np.unique(np.delete(unit_I, items)))
        if min(inside, outside) >= LEAST and (key := items.tobytes()) not in seen:
            seen.add(key)
            yield name, items


def _flip_signs(sum_US: np.ndarray, scale_S: np.ndarray, rng: np.random.Generator, flips: int) -> np.ndarray:
    """Return the largest |z| of all slices for each draw of signs, shape P."""
    largest = []
    for start in range(0, flips, 100):
        sign_PU = rng.integers(0, 2, (min(100, flips - start), len(sum_US))).astype(np.float32) * 2 - 1
        largest.append(np.abs((sign_PU @ sum_US) * scale_S).max(axis=1))
    return np.concatenate(largest)


def _describe(name: str, items: np.ndarray, difference_I: np.ndarray, unit_I: np.ndarray, p: float) -> Slice:
    elsewhere = float(np.delete(difference_I, items).mean())
    return Slice(name, len(items), len(np.unique(unit_I[items])), float(difference_I[items].mean()), elsewhere, p)

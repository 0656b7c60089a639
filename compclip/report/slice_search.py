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
    """A named part of the items, the difference there and elsewhere; `p` is adjusted for all slices tried.

    `z` is the departure in standard errors.
    """

    name: str
    items: int
    units: int
    difference: float
    elsewhere: float
    z: float
    p: float


@dataclass(frozen=True)
class SliceSearch:
    """The slices that depart, the least p first, how many were tried, and how many more there were."""

    slices: tuple[Slice, ...]
    tried: int
    left_out: int


@dataclass(frozen=True)
class Candidates:
    """The slices that are tried, by name; the unit and the stratum of each item; and how many smaller ones are not.

    Items of a stratum (a metric, say) are compared with each other alone.
    """

    items_of: dict[str, np.ndarray]
    unit_I: np.ndarray
    stratum_I: np.ndarray
    left_out: int


@dataclass(frozen=True)
class SliceScores:
    """What each slice departs by, in standard errors, and the largest |z| of all slices under each draw of signs."""

    z_S: np.ndarray
    largest_P: np.ndarray


def search_slices(
    difference_I: np.ndarray,
    unit_I: np.ndarray,
    members: Mapping[str, Sequence[int] | np.ndarray],
    rng: np.random.Generator,
    level: float = LEVEL,
    flips: int = FLIPS,
) -> SliceSearch:
    """Return the slices whose difference departs from that of all items, at a family-wise error of `level`.

    `unit_I` numbers each item's unit from 0; `members` has the items of each slice. Slices of the same items are one,
    under the first name. Memory is units times slices, at most `BYTES`; time also times `flips`.
    """
    candidates = choose_candidates(unit_I, np.zeros(len(unit_I), np.int64), members)
    if not candidates.items_of:
        return SliceSearch((), 0, 0)
    scores = score_slices(candidates, difference_I, rng, flips)
    slices = select_slices(candidates, difference_I, scores.z_S, scores.largest_P, level)
    return SliceSearch(tuple(slices), len(candidates.items_of), candidates.left_out)


def choose_candidates(
    unit_I: np.ndarray, stratum_I: np.ndarray, members: Mapping[str, Sequence[int] | np.ndarray], most: int = MOST
) -> Candidates:
    """Choose the largest `most` slices that have `LEAST` units inside and outside, each set of items once."""
    distinct = sorted(_distinct(members, unit_I), key=lambda c: -len(c[1]))
    most = max(1, min(most, BYTES // (4 * _count_units(unit_I))))
    return Candidates(dict(distinct[:most]), unit_I, stratum_I, max(0, len(distinct) - most))


def _distinct(
    members: Mapping[str, Sequence[int] | np.ndarray], unit_I: np.ndarray
) -> Iterable[tuple[str, np.ndarray]]:
    seen: set[bytes] = set()
    items_U = np.bincount(unit_I.astype(np.int64), minlength=1)
    for name, indices in members.items():
        items = np.unique(np.asarray(indices, dtype=np.int64))
        inside_U = np.bincount(unit_I[items], minlength=len(items_U)) if len(items) else np.zeros_like(items_U)
        inside = np.count_nonzero(inside_U)
        outside = np.count_nonzero(inside_U < items_U)
        if min(inside, outside) >= LEAST and (key := items.tobytes()) not in seen:
            seen.add(key)
            yield name, items


def _count_units(unit_I: np.ndarray) -> int:
    return int(unit_I.max()) + 1 if len(unit_I) else 1


def score_slices(
    candidates: Candidates, difference_I: np.ndarray, rng: np.random.Generator, flips: int = FLIPS
) -> SliceScores:
    """Return z of each slice and the largest |z| of each draw of signs; the same generator draws the same signs."""
    unit_I = candidates.unit_I
    slices = list(candidates.items_of.values())
    residual_I = difference_I - _mean_by_stratum(candidates, difference_I)[candidates.stratum_I]
    units = _count_units(unit_I)
    sum_SU = np.array([np.bincount(unit_I[items], residual_I[items], units) for items in slices])
    expected_S = np.array([len(items) for items in slices]) * np.mean(residual_I**2)
    norm_S = np.sqrt(np.maximum((sum_SU**2).sum(axis=1), expected_S))
    scale_S = np.divide(1, norm_S, out=np.zeros_like(norm_S), where=norm_S > 1e-9)
    z_S = sum_SU.sum(axis=1) * scale_S
    return SliceScores(z_S, _flip_signs(sum_SU.T.astype(np.float32), scale_S, rng, flips))


def select_slices(
    candidates: Candidates, difference_I: np.ndarray, z_S: np.ndarray, largest_P: np.ndarray, level: float = LEVEL
) -> list[Slice]:
    """Return the slices that depart, the least p first; `largest_P` is over all slices that p is adjusted for."""
    flipped_S = (1 + (largest_P[:, None] >= np.abs(z_S) - 1e-9).sum(axis=0)) / (1 + len(largest_P))
    alone_S = [erfc(abs(z) / sqrt(2)) for z in z_S]  # for where no slice has enough that differs to flip
    p_S = np.maximum(flipped_S, alone_S)
    slices = [
        _describe(name, items, candidates, difference_I, float(z), float(p))
        for (name, items), z, p in zip(candidates.items_of.items(), z_S, p_S, strict=True)
        if p <= level
    ]
    return sorted(slices, key=lambda s: (s.p, -abs(s.z)))


def _mean_by_stratum(candidates: Candidates, value_I: np.ndarray) -> np.ndarray:
    count_M = np.bincount(candidates.stratum_I)
    return np.bincount(candidates.stratum_I, value_I) / np.maximum(count_M, 1)


def _flip_signs(sum_US: np.ndarray, scale_S: np.ndarray, rng: np.random.Generator, flips: int) -> np.ndarray:
    """Return the largest |z| of all slices for each draw of signs, shape P."""
    largest = []
    for start in range(0, flips, 100):
        sign_PU = rng.integers(0, 2, (min(100, flips - start), len(sum_US)), dtype=np.int8).astype(np.float32) * 2 - 1
        largest.append(np.abs((sign_PU @ sum_US) * scale_S).max(axis=1))
    return np.concatenate(largest)


def _describe(
    name: str, items: np.ndarray, candidates: Candidates, difference_I: np.ndarray, z: float, p: float
) -> Slice:
    """Describe a slice; `elsewhere` has the strata in the slice's own shares, of one without items outside its mean."""
    stratum_I = candidates.stratum_I
    mean_M = _mean_by_stratum(candidates, difference_I)
    count_M, inside_M = (np.bincount(s, minlength=len(mean_M)) for s in (stratum_I, stratum_I[items]))
    sum_M = mean_M * count_M - np.bincount(stratum_I[items], difference_I[items], len(mean_M))
    outside_M = count_M - inside_M
    elsewhere_M = np.divide(sum_M, outside_M, out=mean_M.copy(), where=outside_M > 0)
    elsewhere = float(elsewhere_M @ inside_M) / len(items)
    units = len(np.unique(candidates.unit_I[items]))
    return Slice(name, len(items), units, float(difference_I[items].mean()), elsewhere, z, p)

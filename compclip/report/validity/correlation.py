"""Rank correlations over pairs and their bootstrap over methods, as weighted sums: a draw is how often each was drawn.

B draws, N items that are correlated, C columns, S seeds.

With s_ij = sign(x_i - x_j), the rank of item i about its mean, ties sharing theirs, is the sum over j of s_ij / 2.
Spearman's rho is Pearson's r of such ranks; Kendall's tau-b is the sum of s_ij t_ij over the root of the sum of s_ij²
times that of t_ij². Both are taken with an item's weight in place of its copies, which is the same: copies tie in both.
Sums of columns add up before the division, for pairs that are compared within their column alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 2_000
LEVEL = 0.95
LEAST = 4  # pairs: of fewer, a rank correlation has a handful of values
CELLS = 4_000_000  # of a matrix of all draws and all pairs of items that is in memory at a time
WEIGHT, RHO, TAU = slice(0, 1), slice(1, 4), slice(4, 7)  # places in what `sums` gives


@dataclass(frozen=True)
class Estimate:
    """A number of `n` pairs; `value` is None where it is not defined, the interval where half of its draws are none."""

    n: int
    value: float | None
    low: float | None = None
    high: float | None = None


def sums(x_BN: np.ndarray, y_BN: np.ndarray, weight_BN: np.ndarray) -> np.ndarray:
    """The weighted sums of each draw, shape B x 7: weight; rho's product and two squares; tau's product and squares.

    An item that is NaN in x or y has no part. y may have one row for all draws.
    """
    draws, items = x_BN.shape
    y_BN, weight_BN = np.broadcast_to(y_BN, x_BN.shape), np.broadcast_to(weight_BN, x_BN.shape)
    step = max(1, CELLS // max(1, items**2))
    parts = [slice(start, start + step) for start in range(0, draws, step)]
    return np.concatenate([_sums(x_BN[p], y_BN[p], weight_BN[p]) for p in parts])


def _sums(x_BN: np.ndarray, y_BN: np.ndarray, weight_BN: np.ndarray) -> np.ndarray:
    there_BN = ~(np.isnan(x_BN) | np.isnan(y_BN))
    w_BN = np.where(there_BN, weight_BN, 0.0)
    s_BNN, t_BNN = _signs(x_BN), _signs(y_BN)
    rank_BN, other_BN = _over(s_BNN, w_BN) / 2, _over(t_BNN, w_BN) / 2
    rho = [(w_BN * a * b).sum(axis=1) for a, b in ((rank_BN, other_BN), (rank_BN, rank_BN), (other_BN, other_BN))]
    tau = [(w_BN * _over(a * b, w_BN)).sum(axis=1) for a, b in ((s_BNN, t_BNN), (s_BNN, s_BNN), (t_BNN, t_BNN))]
    return np.stack([w_BN.sum(axis=1), *rho, *tau], axis=1)


def _signs(values_BN: np.ndarray) -> np.ndarray:
    known = np.nan_to_num(values_BN)
    return np.sign(known[:, :, None] - known[:, None, :])


def _over(matrix_BNN: np.ndarray, weight_BN: np.ndarray) -> np.ndarray:
    """The sum over the last axis, weighted."""
    return np.matmul(matrix_BNN, weight_BN[:, :, None])[:, :, 0]


def ratio(sums_B3: np.ndarray) -> np.ndarray:
    """Product over the root of the squares, shape B; NaN where one of them is 0: all equal, or nothing to compare."""
    below = np.sqrt(sums_B3[..., 1] * sums_B3[..., 2])
    return np.divide(sums_B3[..., 0], below, out=np.full(below.shape, np.nan), where=below > 1e-12)


def within(sums_BC7: np.ndarray, part: slice) -> np.ndarray:
    """The coefficient over all columns, items compared within their column alone, shape B.

    Ranks are divided by how many the column has, so that a long column weighs by its pairs, not by their cube.
    """
    weight_BC1 = sums_BC7[..., WEIGHT]
    scale_BC1 = np.where(weight_BC1 > 0, weight_BC1, 1.0) ** 2 if part == RHO else np.ones_like(weight_BC1)
    return ratio((sums_BC7[..., part] / scale_BC1).sum(axis=1))


def estimate(n: int, values: np.ndarray) -> Estimate:
    """The first of `values` with the percentile interval of the rest, shape 1 + B; None of fewer pairs than `LEAST`."""
    value, draws = values[0], values[1:]
    if n < LEAST or np.isnan(value):
        return Estimate(n, None)
    known = draws[~np.isnan(draws)]
    if 2 * len(known) <= len(draws) or not len(known):
        return Estimate(n, float(value))
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(n, float(value), float(low), float(high))


def resampled(rng: np.random.Generator, draws: int, clusters: int) -> np.ndarray:
    """How often each cluster is in a sample with replacement, shape 1 + B x clusters; the first has each once."""
    drawn = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=draws)
    return np.concatenate([np.ones((1, clusters)), drawn])


def seed_means(rng: np.random.Generator, draws: int, values: Sequence[np.ndarray]) -> np.ndarray:
    """Means over resampled seeds of each method's values (S x C, NaN where there is none), shape 1 + B x methods x C.

    The first is the mean of all. Copies of a method in a draw have the same seeds, and tie.
    """
    return np.stack([_seed_means(rng, draws, own) for own in values], axis=1)


def _seed_means(rng: np.random.Generator, draws: int, value_SC: np.ndarray) -> np.ndarray:
    weight_BS, there_SC = resampled(rng, draws, len(value_SC)), ~np.isnan(value_SC)
    total_BC, number_BC = weight_BS @ np.nan_to_num(value_SC), weight_BS @ there_SC
    means = np.divide(total_BC, number_BC, out=np.full(total_BC.shape, np.nan), where=number_BC > 0)
    return np.round(means, 6)

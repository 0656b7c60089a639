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
MIN_PAIRS = 4  # with fewer pairs a rank correlation has a handful of values
CELLS = 4_000_000  # elements of a draws x items x items matrix in memory at a time
WEIGHT, RHO, TAU = slice(0, 1), slice(1, 4), slice(4, 7)  # columns of what `weighted_sums` returns


@dataclass(frozen=True)
class Estimate:
    """A number of `n` pairs; `value` is None where it is not defined, the interval where half of its draws are none."""

    n: int
    value: float | None
    low: float | None = None
    high: float | None = None


def weighted_sums(x_BN: np.ndarray, y_BN: np.ndarray, weight_BN: np.ndarray) -> np.ndarray:
    """Return the weighted sums of each draw, shape B x 7: weight; rho's product and two squares; the same of tau.

    An item that is NaN in x or y is left out. y may have one row for all draws.
    """
    draws, items = x_BN.shape
    y_BN, weight_BN = np.broadcast_to(y_BN, x_BN.shape), np.broadcast_to(weight_BN, x_BN.shape)
    step = max(1, CELLS // max(1, items**2))
    chunks = [slice(start, start + step) for start in range(0, draws, step)]
    return np.concatenate([_sums(x_BN[p], y_BN[p], weight_BN[p]) for p in chunks])


def _sums(x_BN: np.ndarray, y_BN: np.ndarray, weight_BN: np.ndarray) -> np.ndarray:
    there_BN = ~(np.isnan(x_BN) | np.isnan(y_BN))
    w_BN = np.where(there_BN, weight_BN, 0.0)
    s_BNN, t_BNN = _pairwise_signs(x_BN), _pairwise_signs(y_BN)
    rank_BN, other_BN = _weighted_sum(s_BNN, w_BN) / 2, _weighted_sum(t_BNN, w_BN) / 2
    rho = [(w_BN * a * b).sum(axis=1) for a, b in ((rank_BN, other_BN), (rank_BN, rank_BN), (other_BN, other_BN))]
    tau = [(w_BN * _weighted_sum(a * b, w_BN)).sum(axis=1) for a, b in ((s_BNN, t_BNN), (s_BNN, s_BNN), (t_BNN, t_BNN))]
    return np.stack([w_BN.sum(axis=1), *rho, *tau], axis=1)


def _pairwise_signs(values_BN: np.ndarray) -> np.ndarray:
    numbers_BN = np.nan_to_num(values_BN)
    return np.sign(numbers_BN[:, :, None] - numbers_BN[:, None, :])


def _weighted_sum(matrix_BNN: np.ndarray, weight_BN: np.ndarray) -> np.ndarray:
    """Return the weighted sum over the last axis."""
    return np.matmul(matrix_BNN, weight_BN[:, :, None])[:, :, 0]


def correlation_ratio(sums_B3: np.ndarray) -> np.ndarray:
    """Divide the product by the root of the squares, shape B; NaN where a square is 0 (all equal, or no items)."""
    below = np.sqrt(sums_B3[..., 1] * sums_B3[..., 2])
    return np.divide(sums_B3[..., 0], below, out=np.full(below.shape, np.nan), where=below > 1e-12)


def correlate_within_columns(sums_BC7: np.ndarray, coefficient: slice) -> np.ndarray:
    """Return the coefficient over all columns, items compared within their column only, shape B.

    Ranks are divided by the column's number of items: a long column weighs by its pairs, not by their cube.
    """
    weight_BC1 = sums_BC7[..., WEIGHT]
    scale_BC1 = np.where(weight_BC1 > 0, weight_BC1, 1.0) ** 2 if coefficient == RHO else np.ones_like(weight_BC1)
    return correlation_ratio((sums_BC7[..., coefficient] / scale_BC1).sum(axis=1))


def estimate_interval(n: int, values: np.ndarray) -> Estimate:
    """Return the first of `values` (1 + B) with the percentile interval of the rest; None below `MIN_PAIRS` pairs."""
    value, draws = values[0], values[1:]
    if n < MIN_PAIRS or np.isnan(value):
        return Estimate(n, None)
    defined = draws[~np.isnan(draws)]
    if 2 * len(defined) <= len(draws) or not len(defined):
        return Estimate(n, float(value))
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(n, float(value), float(low), float(high))


def resample_counts(rng: np.random.Generator, draws: int, clusters: int) -> np.ndarray:
    """Count each cluster in samples with replacement, shape 1 + B x clusters; the first row has each once."""
    counts = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=draws)
    return np.concatenate([np.ones((1, clusters)), counts])


def resample_seed_means(rng: np.random.Generator, draws: int, values: Sequence[np.ndarray]) -> np.ndarray:
    """Return means over resampled seeds of each method's values (S x C, NaN if missing), shape 1 + B x methods x C.

    The first is the mean of all seeds. Copies of a method in a draw have the same seeds, and tie.
    """
    return np.stack([_seed_means(rng, draws, values_of_method) for values_of_method in values], axis=1)


def _seed_means(rng: np.random.Generator, draws: int, value_SC: np.ndarray) -> np.ndarray:
    weight_BS, there_SC = resample_counts(rng, draws, len(value_SC)), ~np.isnan(value_SC)
    total_BC, number_BC = weight_BS @ np.nan_to_num(value_SC), weight_BS @ there_SC
    means = np.divide(total_BC, number_BC, out=np.full(total_BC.shape, np.nan), where=number_BC > 0)
    return np.round(means, 6)

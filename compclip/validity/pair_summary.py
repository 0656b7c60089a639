"""Summarise a set of pairs: correlations overall, by column and by method, with intervals over methods and seeds.

B draws, N items that are correlated, M methods (rows of ours), C columns, S seeds. Overall and by column a draw
resamples the methods, each with all of its pairs, and each method's seeds; by method it resamples the families of
columns and the method's seeds. Methods of one family and columns of one benchmark move together, so that the overall
numbers have a second interval: a draw resamples families of methods and kinds of columns, a pair as often as both
together (the pigeonhole bootstrap of Owen, 2007, which is wide rather than narrow), and seeds.

A draw is how often each item was drawn, and correlations are weighted sums. With s_ij = sign(x_i - x_j), the rank of
item i about its mean, ties sharing theirs, is the sum over j of s_ij / 2. Spearman's rho is Pearson's r of such ranks;
Kendall's tau-b is the sum of s_ij t_ij over the root of the sum of s_ij² times that of t_ij². Both are taken with an
item's weight in place of its copies, which is the same: copies tie in both. Sums of columns add up before the
division, for pairs that are compared within their column alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from compclip.report.statistics import named_generator
from compclip.validity.difference_pairs import DifferencePair

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


@dataclass(frozen=True)
class Correlations:
    """The two correlations of the same pairs."""

    rho: Estimate
    tau: Estimate


@dataclass(frozen=True)
class CorrelationRow:
    """One column, or one method: its correlations, and the share of its pairs whose two differences have one sign."""

    name: str
    kind: str
    detail: bool
    pairs: int
    correlations: Correlations
    signs: Estimate


@dataclass(frozen=True)
class PooledEstimates:
    """Numbers over all pairs: `within` compares pairs of one column, `raw` all pairs in points; no details."""

    within: Correlations
    raw: Correlations
    signs: Estimate


@dataclass(frozen=True)
class PairSummary:
    """A set of pairs: the pooled numbers with intervals by method, and in `by_family` the same by family.

    `families` and `kinds` count the families of methods and the kinds of columns.
    """

    name: str
    pairs: int
    methods: int
    families: int
    kinds: int
    within: Correlations
    raw: Correlations
    signs: Estimate
    by_family: PooledEstimates
    columns: tuple[CorrelationRow, ...]
    rows: tuple[CorrelationRow, ...]


@dataclass(frozen=True)
class BootstrapDraws:
    """The arrays of a set of pairs; NaN where a pair is missing. The first draw is the data themselves."""

    rows: tuple[str, ...]
    columns: tuple[DifferencePair, ...]  # the first pair of each
    ours_BMC: np.ndarray
    theirs_MC: np.ndarray
    weight_BM: np.ndarray
    families: tuple[str, ...]  # of each row
    rng: np.random.Generator

    @property
    def pooled(self) -> list[int]:
        """Indices of the columns that are not details."""
        return [i for i, pair in enumerate(self.columns) if not pair.column.detail]


def summarize_pairs(name: str, pairs: Sequence[DifferencePair], number_of_draws: int = DRAWS) -> PairSummary:
    """Return all correlations of the pairs; deterministic for the same pairs and name."""
    draws = _draw(name, pairs, number_of_draws)
    main = [p for p in pairs if not p.column.detail]
    by_column = _column_sums(draws)
    pooled = _pool(draws, by_column, np.ones((len(draws.weight_BM), len(draws.columns))))
    columns = tuple(_summarize_column(draws, i, by_column[:, i]) for i in range(len(draws.columns)))
    rows = tuple(_summarize_method(draws, i) for i in range(len(draws.rows)))
    return PairSummary(
        name, len(main), len({p.row for p in main}), len({p.row_family for p in main}), len({p.kind for p in main}),
        pooled.within, pooled.raw, pooled.signs, _pool_by_family(draws), columns, rows,
    )  # fmt: skip


def pool_pairs(pairs: Sequence[DifferencePair]) -> PooledEstimates:
    """Return the pooled numbers of the pairs without intervals."""
    draws = _draw("", pairs, 0)
    return _pool(draws, _column_sums(draws), np.ones((1, len(draws.columns))))


def _pool(draws: BootstrapDraws, sums_BC7: np.ndarray, weight_BC: np.ndarray) -> PooledEstimates:
    """Estimate the pooled numbers; `sums_BC7` are those of the columns, which count as often as `weight_BC` says."""
    columns = draws.pooled
    ours_BMC, theirs_MC = draws.ours_BMC[..., columns], draws.theirs_MC[:, columns]
    n = int((~np.isnan(theirs_MC)).sum())
    rho, tau = (
        estimate_interval(n, correlate_within_columns(sums_BC7[:, columns], kind, weight_BC[:, columns]))
        for kind in (RHO, TAU)
    )
    signs = _sign_agreement(ours_BMC, theirs_MC, draws.weight_BM, weight_BC[:, columns])
    return PooledEstimates(Correlations(rho, tau), _correlate_in_points(draws, weight_BC), signs)


def _pool_by_family(draws: BootstrapDraws) -> PooledEstimates:
    """Estimate the pooled numbers with intervals over families of methods, kinds of columns, and seeds."""
    of_families = replace(draws, weight_BM=_resample_families(draws.families, draws))
    weight_BC = _resample_families([pair.kind for pair in draws.columns], draws)
    return _pool(of_families, _column_sums(of_families), weight_BC)


def _draw(name: str, pairs: Sequence[DifferencePair], draws: int) -> BootstrapDraws:
    rows = list(dict.fromkeys(p.row for p in pairs))
    columns = {p.column.name: p for p in sorted(pairs, key=lambda p: p.column.position)}
    position = {column: i for i, column in enumerate(columns)}
    theirs_MC = np.full((len(rows), len(columns)), np.nan)
    seeds = [sorted({seed for p in pairs if p.row == row for seed in p.seeds}) for row in rows]
    ours = [np.full((len(seeds_of_row), len(columns)), np.nan) for seeds_of_row in seeds]
    for p in pairs:
        m, c = rows.index(p.row), position[p.column.name]
        theirs_MC[m, c] = p.published
        for seed, value in zip(p.seeds, p.ours, strict=True):
            ours[m][seeds[m].index(seed), c] = value
    rng = named_generator("validity", name)
    if not pairs:
        return BootstrapDraws((), (), np.zeros((1 + draws, 0, 0)), theirs_MC, np.zeros((1 + draws, 0)), (), rng)
    ours_BMC = resample_seed_means(rng, draws, ours)
    weight_BM = resample_counts(rng, draws, len(rows))
    family_of = {p.row: p.row_family for p in pairs}
    families = tuple(family_of[row] for row in rows)
    return BootstrapDraws(tuple(rows), tuple(columns.values()), ours_BMC, theirs_MC, weight_BM, families, rng)


def _estimate_correlations(n: int, sums_B7: np.ndarray) -> Correlations:
    return Correlations(*(estimate_interval(n, correlation_ratio(sums_B7[:, kind])) for kind in (RHO, TAU)))


def _column_sums(draws: BootstrapDraws) -> np.ndarray:
    """Return the weighted sums of every column, shape 1 + B x C x 7."""
    sums = [
        weighted_sums(draws.ours_BMC[..., i], draws.theirs_MC[:, i][None], draws.weight_BM)
        for i in range(len(draws.columns))
    ]
    return np.stack(sums, axis=1) if sums else np.zeros((len(draws.weight_BM), 0, 7))


def _correlate_in_points(draws: BootstrapDraws, weight_BC: np.ndarray) -> Correlations:
    """Correlate all pairs in points, across columns; scores have another unit and are left out."""
    columns = [i for i in draws.pooled if not draws.columns[i].unit.score]
    theirs_N = draws.theirs_MC[:, columns].ravel()
    is_present_N = ~np.isnan(theirs_N)
    size = len(draws.weight_BM)
    ours_BN = draws.ours_BMC[..., columns].reshape(size, -1)[:, is_present_N]
    weight_BMC = draws.weight_BM[:, :, None] * weight_BC[:, None, columns]
    weight_BN = weight_BMC.reshape(size, -1)[:, is_present_N]
    sums_B7 = weighted_sums(ours_BN, theirs_N[None, is_present_N], weight_BN)
    return _estimate_correlations(int(is_present_N.sum()), sums_B7)


def _summarize_column(draws: BootstrapDraws, index: int, sums_B7: np.ndarray) -> CorrelationRow:
    first = draws.columns[index]
    ours, theirs = draws.ours_BMC[..., [index]], draws.theirs_MC[:, [index]]
    n = int((~np.isnan(theirs)).sum())
    correlations, signs = _estimate_correlations(n, sums_B7), _sign_agreement(ours, theirs, draws.weight_BM)
    return CorrelationRow(first.column.name, first.kind, first.column.detail, n, correlations, signs)


def _summarize_method(draws: BootstrapDraws, index: int) -> CorrelationRow:
    """Correlate over columns; each side's differences are divided by their root mean square in the column."""
    columns = [i for i in draws.pooled if not np.isnan(draws.theirs_MC[index, i])]
    theirs_C = draws.theirs_MC[index, columns] / _root_mean_square(draws.theirs_MC[:, columns])
    is_present = ~np.isnan(draws.theirs_MC[:, columns])
    ours_BC = draws.ours_BMC[:, index, columns] / _root_mean_square(
        np.where(is_present, draws.ours_BMC[0][:, columns], np.nan)
    )
    weight_BC = _resample_families([draws.columns[i].column.family for i in columns], draws)
    sums_B7 = weighted_sums(ours_BC, theirs_C[None], weight_BC)
    correlations = _estimate_correlations(len(columns), sums_B7)
    signs = _sign_agreement(ours_BC[:, None], theirs_C[None], np.ones((len(weight_BC), 1)), weight_BC)
    return CorrelationRow(draws.rows[index], "", False, len(columns), correlations, signs)


def _root_mean_square(values_MC: np.ndarray) -> np.ndarray:
    """Return the root mean square of each column, 1 for a column without any difference."""
    square_C = np.nanmean(values_MC**2, axis=0) if values_MC.size else np.ones(values_MC.shape[1])
    return np.sqrt(np.where(square_C > 0, square_C, 1.0))


def _resample_families(names: Sequence[str], draws: BootstrapDraws) -> np.ndarray:
    """Count how often each name is in a draw of families, given that of each, shape 1 + B x names."""
    families = list(dict.fromkeys(names))
    if not families:
        return np.ones((len(draws.weight_BM), 0))
    weight_BF = resample_counts(draws.rng, len(draws.weight_BM) - 1, len(families))
    return weight_BF[:, [families.index(name) for name in names]]


def _sign_agreement(
    ours_BMC: np.ndarray, theirs_MC: np.ndarray, weight_BM: np.ndarray, column_BC: np.ndarray | None = None
) -> Estimate:
    """Estimate the share of pairs whose two differences have one sign; pairs with a 0 on either side do not count."""
    product_BMC = np.nan_to_num(np.sign(ours_BMC) * np.sign(theirs_MC))
    weight_BMC = weight_BM[:, :, None] * (1.0 if column_BC is None else column_BC[:, None, :])
    same_B = (weight_BMC * (product_BMC > 0)).sum(axis=(1, 2))
    all_B = (weight_BMC * (product_BMC != 0)).sum(axis=(1, 2))
    share_B = np.divide(same_B, all_B, out=np.full(same_B.shape, np.nan), where=all_B > 0)
    return estimate_interval(int(all_B[0]), share_B)


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
    s_BNN, t_BNN = (np.sign(v_BN[:, :, None] - v_BN[:, None, :]) for v_BN in map(np.nan_to_num, (x_BN, y_BN)))
    rank_BN, other_BN = _weighted_sum(s_BNN, w_BN) / 2, _weighted_sum(t_BNN, w_BN) / 2
    rho = [(w_BN * a * b).sum(axis=1) for a, b in ((rank_BN, other_BN), (rank_BN, rank_BN), (other_BN, other_BN))]
    tau = [(w_BN * _weighted_sum(a * b, w_BN)).sum(axis=1) for a, b in ((s_BNN, t_BNN), (s_BNN, s_BNN), (t_BNN, t_BNN))]
    return np.stack([w_BN.sum(axis=1), *rho, *tau], axis=1)


def _weighted_sum(matrix_BNN: np.ndarray, weight_BN: np.ndarray) -> np.ndarray:
    """Return the weighted sum over the last axis."""
    return np.matmul(matrix_BNN, weight_BN[:, :, None])[:, :, 0]


def correlation_ratio(sums_B3: np.ndarray) -> np.ndarray:
    """Divide the product by the root of the squares, shape B; NaN where a square is 0 (all equal, or no items)."""
    below = np.sqrt(sums_B3[..., 1] * sums_B3[..., 2])
    return np.divide(sums_B3[..., 0], below, out=np.full(below.shape, np.nan), where=below > 1e-12)


def correlate_within_columns(
    sums_BC7: np.ndarray, coefficient: slice, weight_BC: np.ndarray | None = None
) -> np.ndarray:
    """Return the coefficient over all columns, items compared within their column only, shape B.

    A column counts as often as `weight_BC` says; without it, once. Ranks are divided by the column's number of items: a
    long column weighs by its pairs, not by their cube.
    """
    weight_BC1 = sums_BC7[..., WEIGHT]
    scale_BC1 = np.where(weight_BC1 > 0, weight_BC1, 1.0) ** 2 if coefficient == RHO else np.ones_like(weight_BC1)
    repeats = 1.0 if weight_BC is None else weight_BC[..., None]
    return correlation_ratio((repeats * sums_BC7[..., coefficient] / scale_BC1).sum(axis=1))


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

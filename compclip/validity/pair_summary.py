"""Summarise a set of pairs: correlations overall, by column and by method, with intervals over methods and seeds.

B draws, M methods (rows of ours), C columns, S seeds. Overall and by column a draw resamples the methods, each with all
of its pairs, and each method's seeds; by method it resamples the families of columns and the method's seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compclip.report.statistics import named_generator
from compclip.validity import rank_correlation
from compclip.validity.difference_pairs import DifferencePair
from compclip.validity.rank_correlation import DRAWS, RHO, TAU, Estimate


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
class PairSummary:
    """A set of pairs. `within` compares pairs of one column, `raw` all pairs in points; details are in neither."""

    name: str
    pairs: int
    methods: int
    within: Correlations
    raw: Correlations
    signs: Estimate
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
    pooled = by_column[:, draws.pooled]
    within = _estimate_correlations(
        len(main), *(rank_correlation.correlate_within_columns(pooled, coefficient) for coefficient in (RHO, TAU))
    )
    signs = _sign_agreement(draws.ours_BMC[..., draws.pooled], draws.theirs_MC[:, draws.pooled], draws.weight_BM)
    return PairSummary(
        name, len(main), len({p.row for p in main}), within, _correlate_in_points(draws), signs,
        tuple(_summarize_column(draws, i, by_column[:, i]) for i in range(len(draws.columns))),
        tuple(_summarize_method(draws, i) for i in range(len(draws.rows))),
    )  # fmt: skip


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
        return BootstrapDraws((), (), np.zeros((1 + draws, 0, 0)), theirs_MC, np.zeros((1 + draws, 0)), rng)
    ours_BMC = rank_correlation.resample_seed_means(rng, draws, ours)
    weight_BM = rank_correlation.resample_counts(rng, draws, len(rows))
    return BootstrapDraws(tuple(rows), tuple(columns.values()), ours_BMC, theirs_MC, weight_BM, rng)


def _estimate_correlations(n: int, rho_B: np.ndarray, tau_B: np.ndarray) -> Correlations:
    return Correlations(rank_correlation.estimate_interval(n, rho_B), rank_correlation.estimate_interval(n, tau_B))


def _column_sums(draws: BootstrapDraws) -> np.ndarray:
    """Return the weighted sums of every column, shape 1 + B x C x 7."""
    sums = [
        rank_correlation.weighted_sums(draws.ours_BMC[..., i], draws.theirs_MC[:, i][None], draws.weight_BM)
        for i in range(len(draws.columns))
    ]
    return np.stack(sums, axis=1) if sums else np.zeros((len(draws.weight_BM), 0, 7))


def _correlate_in_points(draws: BootstrapDraws) -> Correlations:
    """Correlate all pairs in points, across columns; scores have another unit and are left out."""
    places = [i for i in draws.pooled if not draws.columns[i].unit.score]
    theirs_N = draws.theirs_MC[:, places].ravel()
    there_N = ~np.isnan(theirs_N)
    ours_BN = draws.ours_BMC[..., places].reshape(len(draws.weight_BM), -1)[:, there_N]
    weight_BN = np.repeat(draws.weight_BM, len(places), axis=1)[:, there_N]
    sums_B7 = rank_correlation.weighted_sums(ours_BN, theirs_N[None, there_N], weight_BN)
    return _estimate_correlations(
        int(there_N.sum()),
        rank_correlation.correlation_ratio(sums_B7[:, RHO]),
        rank_correlation.correlation_ratio(sums_B7[:, TAU]),
    )


def _summarize_column(draws: BootstrapDraws, index: int, sums_B7: np.ndarray) -> CorrelationRow:
    first = draws.columns[index]
    ours, theirs = draws.ours_BMC[..., [index]], draws.theirs_MC[:, [index]]
    n = int((~np.isnan(theirs)).sum())
    correlations = _estimate_correlations(
        n, rank_correlation.correlation_ratio(sums_B7[:, RHO]), rank_correlation.correlation_ratio(sums_B7[:, TAU])
    )
    return CorrelationRow(
        first.column.name,
        first.kind,
        first.column.detail,
        n,
        correlations,
        _sign_agreement(ours, theirs, draws.weight_BM),
    )


def _summarize_method(draws: BootstrapDraws, index: int) -> CorrelationRow:
    """Correlate over columns; each side's differences are divided by their root mean square in the column."""
    columns = [i for i in draws.pooled if not np.isnan(draws.theirs_MC[index, i])]
    theirs_C = draws.theirs_MC[index, columns] / _root_mean_square(draws.theirs_MC[:, columns])
    is_present = ~np.isnan(draws.theirs_MC[:, columns])
    ours_BC = draws.ours_BMC[:, index, columns] / _root_mean_square(
        np.where(is_present, draws.ours_BMC[0][:, columns], np.nan)
    )
    weight_BC = _resample_families([draws.columns[i].column.family for i in columns], draws)
    sums_B7 = rank_correlation.weighted_sums(ours_BC, theirs_C[None], weight_BC)
    correlations = _estimate_correlations(
        len(columns),
        rank_correlation.correlation_ratio(sums_B7[:, RHO]),
        rank_correlation.correlation_ratio(sums_B7[:, TAU]),
    )
    signs = _sign_agreement(ours_BC[:, None], theirs_C[None], np.ones((len(weight_BC), 1)), weight_BC)
    return CorrelationRow(draws.rows[index], "", False, len(columns), correlations, signs)


def _root_mean_square(values_MC: np.ndarray) -> np.ndarray:
    """Return the root mean square of each column, 1 for a column without any difference."""
    square_C = np.nanmean(values_MC**2, axis=0) if values_MC.size else np.ones(values_MC.shape[1])
    return np.sqrt(np.where(square_C > 0, square_C, 1.0))


def _resample_families(names: Sequence[str], draws: BootstrapDraws) -> np.ndarray:
    """Count how often each column is in a draw of families, shape 1 + B x C."""
    families = list(dict.fromkeys(names))
    if not families:
        return np.ones((len(draws.weight_BM), 0))
    weight_BF = rank_correlation.resample_counts(draws.rng, len(draws.weight_BM) - 1, len(families))
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
    return rank_correlation.estimate_interval(int(all_B[0]), share_B)

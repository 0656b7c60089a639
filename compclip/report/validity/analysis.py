"""What a set of pairs says: correlations overall, by column and by method, with intervals over methods and seeds.

B draws, M methods (rows of ours), C columns, S seeds. Overall and by column a draw resamples the methods, each with all
of its pairs, and each method's seeds; by method it resamples the families of columns and the method's seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compclip.report.statistics import generator
from compclip.report.validity import correlation
from compclip.report.validity.correlation import DRAWS, RHO, TAU, Estimate
from compclip.report.validity.pairs import Pair


@dataclass(frozen=True)
class Both:
    """The two correlations of the same pairs."""

    rho: Estimate
    tau: Estimate


@dataclass(frozen=True)
class Line:
    """One column, or one method: its correlations, and the share of its pairs whose two differences have one sign."""

    name: str
    kind: str
    detail: bool
    pairs: int
    found: Both
    signs: Estimate


@dataclass(frozen=True)
class Summary:
    """A set of pairs. `within` compares pairs of one column alone, `raw` all in points; details are in neither."""

    name: str
    pairs: int
    methods: int
    within: Both
    raw: Both
    signs: Estimate
    columns: tuple[Line, ...]
    rows: tuple[Line, ...]


@dataclass(frozen=True)
class Drawn:
    """The arrays of a set of pairs; NaN where there is none. The first draw is the data themselves."""

    rows: tuple[str, ...]
    columns: tuple[Pair, ...]  # the first pair of each
    ours_BMC: np.ndarray
    theirs_MC: np.ndarray
    weight_BM: np.ndarray
    rng: np.random.Generator

    @property
    def pooled(self) -> list[int]:
        """The places of the columns that are no detail."""
        return [i for i, pair in enumerate(self.columns) if not pair.column.detail]


def summary(name: str, pairs: Sequence[Pair], draws: int = DRAWS) -> Summary:
    """All numbers of these pairs, the same for the same pairs."""
    drawn = _drawn(name, pairs, draws)
    main = [p for p in pairs if not p.column.detail]
    by_column = _column_sums(drawn)
    pooled = by_column[:, drawn.pooled]
    within = _both(len(main), *(correlation.within(pooled, part) for part in (RHO, TAU)))
    signs = _signs(drawn.ours_BMC[..., drawn.pooled], drawn.theirs_MC[:, drawn.pooled], drawn.weight_BM)
    return Summary(
        name, len(main), len({p.row for p in main}), within, _raw(drawn), signs,
        tuple(_column(drawn, i, by_column[:, i]) for i in range(len(drawn.columns))),
        tuple(_row(drawn, i) for i in range(len(drawn.rows))),
    )  # fmt: skip


def _drawn(name: str, pairs: Sequence[Pair], draws: int) -> Drawn:
    rows = list(dict.fromkeys(p.row for p in pairs))
    columns = {p.column.name: p for p in sorted(pairs, key=lambda p: p.column.place)}
    place = {column: i for i, column in enumerate(columns)}
    theirs_MC = np.full((len(rows), len(columns)), np.nan)
    seeds = [sorted({seed for p in pairs if p.row == row for seed in p.seeds}) for row in rows]
    ours = [np.full((len(own), len(columns)), np.nan) for own in seeds]
    for p in pairs:
        m, c = rows.index(p.row), place[p.column.name]
        theirs_MC[m, c] = p.published
        for seed, value in zip(p.seeds, p.ours, strict=True):
            ours[m][seeds[m].index(seed), c] = value
    rng = generator("validity", name)
    if not pairs:
        return Drawn((), (), np.zeros((1 + draws, 0, 0)), theirs_MC, np.zeros((1 + draws, 0)), rng)
    ours_BMC = correlation.seed_means(rng, draws, ours)
    weight_BM = correlation.resampled(rng, draws, len(rows))
    return Drawn(tuple(rows), tuple(columns.values()), ours_BMC, theirs_MC, weight_BM, rng)


def _both(n: int, rho_B: np.ndarray, tau_B: np.ndarray) -> Both:
    return Both(correlation.estimate(n, rho_B), correlation.estimate(n, tau_B))


def _column_sums(drawn: Drawn) -> np.ndarray:
    """The sums of every column, shape 1 + B x C x 7."""
    made = [
        correlation.sums(drawn.ours_BMC[..., i], drawn.theirs_MC[:, i][None], drawn.weight_BM)
        for i in range(len(drawn.columns))
    ]
    return np.stack(made, axis=1) if made else np.zeros((len(drawn.weight_BM), 0, 7))


def _raw(drawn: Drawn) -> Both:
    """Over all pairs in points, whatever their column; scores have another unit and are left out."""
    places = [i for i in drawn.pooled if not drawn.columns[i].unit.score]
    theirs_N = drawn.theirs_MC[:, places].ravel()
    there_N = ~np.isnan(theirs_N)
    ours_BN = drawn.ours_BMC[..., places].reshape(len(drawn.weight_BM), -1)[:, there_N]
    weight_BN = np.repeat(drawn.weight_BM, len(places), axis=1)[:, there_N]
    found = correlation.sums(ours_BN, theirs_N[None, there_N], weight_BN)
    return _both(int(there_N.sum()), correlation.ratio(found[:, RHO]), correlation.ratio(found[:, TAU]))


def _column(drawn: Drawn, place: int, sums_B7: np.ndarray) -> Line:
    first = drawn.columns[place]
    ours, theirs = drawn.ours_BMC[..., [place]], drawn.theirs_MC[:, [place]]
    n = int((~np.isnan(theirs)).sum())
    found = _both(n, correlation.ratio(sums_B7[:, RHO]), correlation.ratio(sums_B7[:, TAU]))
    return Line(first.column.name, first.kind, first.column.detail, n, found, _signs(ours, theirs, drawn.weight_BM))


def _row(drawn: Drawn, place: int) -> Line:
    """Over columns, each side's differences divided by their root mean square in the column: 0 stays the start."""
    columns = [i for i in drawn.pooled if not np.isnan(drawn.theirs_MC[place, i])]
    theirs_C = drawn.theirs_MC[place, columns] / _size(drawn.theirs_MC[:, columns])
    there = ~np.isnan(drawn.theirs_MC[:, columns])
    ours_BC = drawn.ours_BMC[:, place, columns] / _size(np.where(there, drawn.ours_BMC[0][:, columns], np.nan))
    weight_BC = _families([drawn.columns[i].column.family for i in columns], drawn)
    found = correlation.sums(ours_BC, theirs_C[None], weight_BC)
    both = _both(len(columns), correlation.ratio(found[:, RHO]), correlation.ratio(found[:, TAU]))
    signs = _signs(ours_BC[:, None], theirs_C[None], np.ones((len(weight_BC), 1)), weight_BC)
    return Line(drawn.rows[place], "", False, len(columns), both, signs)


def _size(values_MC: np.ndarray) -> np.ndarray:
    """The root mean square of each column; 1 for one without any difference."""
    square_C = np.nanmean(values_MC**2, axis=0) if values_MC.size else np.ones(values_MC.shape[1])
    return np.sqrt(np.where(square_C > 0, square_C, 1.0))


def _families(names: Sequence[str], drawn: Drawn) -> np.ndarray:
    """How often each column is in a draw of families, shape 1 + B x C."""
    known = list(dict.fromkeys(names))
    if not known:
        return np.ones((len(drawn.weight_BM), 0))
    weight_BF = correlation.resampled(drawn.rng, len(drawn.weight_BM) - 1, len(known))
    return weight_BF[:, [known.index(name) for name in names]]


def _signs(
    ours_BMC: np.ndarray, theirs_MC: np.ndarray, weight_BM: np.ndarray, column_BC: np.ndarray | None = None
) -> Estimate:
    """The share of pairs with one sign on both sides; those with a 0 on either side are not counted."""
    product_BMC = np.nan_to_num(np.sign(ours_BMC) * np.sign(theirs_MC))
    weight_BMC = weight_BM[:, :, None] * (1.0 if column_BC is None else column_BC[:, None, :])
    same_B = (weight_BMC * (product_BMC > 0)).sum(axis=(1, 2))
    all_B = (weight_BMC * (product_BMC != 0)).sum(axis=(1, 2))
    share_B = np.divide(same_B, all_B, out=np.full(same_B.shape, np.nan), where=all_B > 0)
    return correlation.estimate(int(all_B[0]), share_B)

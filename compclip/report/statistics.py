"""Means, ranks, and the 95 % interval of a difference of two methods over seeds and items together.

S seeds, I items, U units. Seeds are a sample of all trainings, items one of all records, and the two are crossed: every
seed is scored on the same items. A unit is what is drawn at once: a picture with its captions and all records that show
it, in all metrics and benchmarks that a column is the mean of (`evaluate.benchmark.number_units`).

The mean's variance is that of a random layout, seed + unit - noise: `seed` is the spread of the seeds' means, `unit`
that of the units' means over seeds, and the noise of one seed on one unit is in both, so that it is taken off `unit`.
(To draw seeds and units anew, Owen's pigeonhole bootstrap, 2007, counts that noise more than once, and the seeds'
spread too little by 1 / S.) The variances that remain are independent, and their interval is Banerjee's (Sankhya, 1960
and 1961): the square of its half width is the sum of each variance times the square of its own Student's factor. With
Satterthwaite's degrees of freedom (1946) for their sum, 92 to 98 of 100 intervals of three seeds held the truth. How
often these do, with all benchmarks' pictures, is in perf/truth/coverage.py.

Rows of one table train alike, so that each one's variance over seeds tells of the others'. Where three or more rows
vary, `SeedPrior` is what they tell (Smyth, 2004), and a row's own variance is moderated by it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import sqrt

import numpy as np

from compclip.runs.item_outcomes import CAPTION, Items

# --- what a variance is made of, and the width of its interval

LEVEL = 0.05
LEVELS_K = np.geomspace(1.0, 1e-12, 400)  # of p values; none is said to be smaller
TABLES = 512  # of so many degrees of freedom are remembered
# A tenth of the noise is taken off the seeds' variance, and no less is left of it than nine tenths of the units' factor
# make. By integration 94 to 98 of 100 intervals of three or more seeds then hold the truth, whatever the variances are.
# So they do by Banerjee's rule alone, with which seeds that agree by chance leave an interval of almost no width.
NOISE_OFF = 0.1
LEAST_FACTOR = 0.9


@dataclass(frozen=True)
class Variance:
    """An estimate of a variance and the degrees of freedom that it rests on."""

    value: float
    freedom: float


@dataclass(frozen=True)
class Spread:
    """What the variance of a mean difference over `seeds` is made of; `seed` is None where there is one.

    `noise`, of one seed on one unit, is in the seeds' variance and in that of the units.
    """

    seeds: int
    seed: Variance | None
    by_unit: tuple[Variance, ...]
    noise: float = 0.0

    @property
    def shift(self) -> float:
        """The variance of one seed's difference that is no noise of units; 0 where one seed tells nothing of it."""
        return max(self.seed.value - self.noise, 0.0) * self.seeds if self.seed else 0.0

    @property
    def unit(self) -> Variance:
        """The variance over the units of all sources of pictures."""
        return Variance(sum(variance.value for variance in self.by_unit), _satterthwaite(self.by_unit))

    @property
    def variances(self) -> tuple[Variance, ...]:
        """The independent variances of the mean that are not 0: trainings with their noise, and units without it."""
        units = self.unit
        if not self.seed:
            return (units,) if units.value else ()
        factor = LEAST_FACTOR * student_quantile(units.freedom) / student_quantile(self.seed.freedom)
        seed = replace(self.seed, value=max(self.seed.value - NOISE_OFF * self.noise, factor**2 * self.noise))
        crossed = replace(units, value=max(units.value - self.noise, 0.0))
        return tuple(variance for variance in (seed, crossed) if variance.value > 0)

    def half_width(self, level: float = LEVEL) -> float:
        """Return half the width of an interval that leaves out the truth in a share `level`, by Banerjee's rule."""
        return sqrt(sum(v.value * student_quantile(v.freedom, level) ** 2 for v in self.variances))

    def p_value(self, gap: float) -> float:
        """Return the level of which half the width is `gap`; 0 or 1 where nothing varies."""
        variances = self.variances
        if not variances:
            return float(gap == 0)
        square_K = sum(v.value * student_quantiles(v.freedom) ** 2 for v in variances)
        return float(np.exp(np.interp(gap**2, square_K, np.log(LEVELS_K))))

    def with_seeds(self, seeds: int) -> Spread:
        """Return what the spread of so many seeds would be, by the variances of these and their prior; two or more."""
        noise = self.noise * self.seeds / seeds
        present = self.unit.value
        scale = max(present - self.noise + noise, 0.0) / present if present else 1.0
        scaled = tuple(Variance(variance.value * scale, variance.freedom) for variance in self.by_unit)
        freedom = seeds - 1 + self.prior_freedom
        return Spread(seeds, Variance(self.shift / seeds + noise, freedom), scaled, noise)

    @property
    def prior_freedom(self) -> float:
        """The degrees of freedom that the table's other rows add to those of the seeds; 0 without a prior."""
        return self.seed.freedom - (self.seeds - 1) if self.seed else 0.0


def student_quantile(freedom: float, level: float = LEVEL) -> float:
    """Return the value that Student's t exceeds, on either side, in a share `level` of draws."""
    from scipy.special import stdtrit  # as long to import as numpy, and most commands ask for no interval

    return -float(stdtrit(freedom, level / 2))


@lru_cache(maxsize=TABLES)
def student_quantiles(freedom: float) -> np.ndarray:
    """Return the quantile of each level of `LEVELS_K`, in rising order."""
    from scipy.special import stdtrit

    return -stdtrit(freedom, LEVELS_K / 2)


def _satterthwaite(terms: Sequence[Variance]) -> float:
    """Return the degrees of freedom of a sum of variances (Satterthwaite, 1946), to four digits; infinite for none."""
    squares = sum(term.value**2 / term.freedom for term in terms)
    total = sum(term.value for term in terms)
    return float(f"{total**2 / squares:.4g}") if squares else np.inf


# --- what the rows of a table tell of each other's variances over seeds

LEAST_ROWS = 3
# Of Smyth's degrees of freedom, and of those of all rows but two, so much is used. By perf.truth.coverage --tables
# about 94 to 97 of 100 intervals then hold the truth for 3 to 40 rows and 2 to 5 seeds, alike or spread fivefold.
PRIOR_SHARE = 0.45
LEAST_SHARE = 0.003  # of the rows' mean variance; two seeds with equal scores have a variance of 0, and no logarithm


@dataclass(frozen=True)
class SeedPrior:
    """What the `rows` of a column tell of one more row's variance over seeds: the variance of a single training."""

    variance: float
    freedom: float
    rows: int

    def moderate(self, variance: Variance) -> Variance:
        """Return a row's variance with the prior's (Smyth, 2004, Sec. 4: the posterior variance).

        The prior counts less for a row that varies more than the wildest of so many rows would (Phipson et al., 2016).
        """
        from scipy.special import fdtrc

        tail = float(fdtrc(variance.freedom, self.freedom, variance.value / self.variance))
        freedom = self.freedom * min(1.0, self.rows * tail)
        total = freedom + variance.freedom
        return Variance((freedom * self.variance + variance.freedom * variance.value) / total, total)


def estimate_prior(variances: Sequence[Variance], size: float = 1.0) -> SeedPrior | None:
    """Estimate the prior of `size` times a row's variance from the moments of their logarithms (Smyth, 2004, Sec. 6.2).

    None for fewer than three rows, and where none varies.
    """
    mean = sum(v.value for v in variances) / max(len(variances), 1)
    if len(variances) < LEAST_ROWS or not mean:
        return None
    from scipy.special import digamma, polygamma

    value_M = np.maximum([v.value for v in variances], LEAST_SHARE * mean)
    half_M = np.array([v.freedom for v in variances]) / 2
    e_M = np.log(value_M) - digamma(half_M) + np.log(half_M)
    excess = float(e_M.var(ddof=1) - polygamma(1, half_M).mean())
    most = limit_prior(len(variances), 2 * float(half_M.mean()))
    if excess <= 0:
        return SeedPrior(size * mean, most, len(variances))
    half = _inverse_trigamma(excess)
    variance = float(np.exp(e_M.mean() + digamma(half) - np.log(half)))
    return SeedPrior(size * variance, min(PRIOR_SHARE * 2 * half, most), len(variances))


def limit_prior(rows: int, freedom: float) -> float:
    """Return the degrees of freedom of a prior of rows that vary alike, each by so many of its own."""
    return PRIOR_SHARE * freedom * max(rows - 2, 0)


@dataclass(frozen=True)
class ColumnPriors:
    """The priors of a column; None where fewer than three rows vary."""

    row: SeedPrior | None = None  # of a row, beside a model that no seed changes
    pair: SeedPrior | None = None  # of the difference of two rows of the same seeds


def estimate_column_priors(rows: Sequence[Mapping[int, float]]) -> ColumnPriors:
    """Estimate a column's priors from the scores of each trained row, by seed; each row has two seeds or more.

    What a seed does to all rows alike is not in the difference of two. The prior of pairs is therefore twice the
    variance of a row about the rows' mean of each seed, over the seeds that all rows have.
    """
    if len(rows) < LEAST_ROWS:
        return ColumnPriors()
    row = estimate_prior([_variance(list(scores.values())) for scores in rows])
    seeds = sorted(set.intersection(*map(set, rows)))
    if len(seeds) < 2:
        return ColumnPriors(row)
    score_MS = np.array([[scores[seed] for seed in seeds] for scores in rows])
    centred_MS = score_MS - score_MS.mean(axis=0)
    return ColumnPriors(row, estimate_prior(list(map(_variance, centred_MS)), 2 * len(rows) / (len(rows) - 1)))


def _variance(values: Sequence[float]) -> Variance:
    return Variance(float(np.var(values, ddof=1)), len(values) - 1)


def _inverse_trigamma(value: float) -> float:
    """Return y with trigamma(y) = value, by Newton's method on 1 / trigamma (Smyth, 2004, Appendix)."""
    from scipy.special import polygamma

    y = 0.5 + 1 / value
    for _ in range(20):  # from this start it rises to y, and each step doubles the digits
        trigamma = polygamma(1, y)
        y += float(trigamma * (1 - trigamma / value) / polygamma(2, y))
    return y


# --- means, ranks and intervals

BOTH = "seeds and items"
SEEDS_ALONE = "seeds alone"
ITEMS_ALONE = "items alone"
NEITHER = ""
Units = tuple[int | str, ...]  # of each item: a picture's number, which all benchmarks share, or a name in its own
LISTS = 256  # the pictures, and the units, of so many lists of ids are remembered


@dataclass(frozen=True)
class Interval:
    """A difference with its 95 % interval; `items` is how many pairs it rests on, `spread` what it varies by."""

    estimate: float
    low: float
    high: float
    items: int
    spread: Spread | None = field(default=None, compare=False, repr=False)

    @property
    def plain(self) -> dict[str, float | int]:
        """The interval as files have it."""
        return {"estimate": self.estimate, "low": self.low, "high": self.high, "items": self.items}

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


def align_items(items: Sequence[Items]) -> tuple[Items, np.ndarray]:
    """Return the first seed's items that all seeds have, and each seed's outcomes of them, shape S x I.

    Units are those of the first seed whose file has them.
    """
    first = next((of_seed for of_seed in items if of_seed.units), items[0])
    if all(seed_items.ids == first.ids for seed_items in items):
        return first, np.stack([i.values for i in items])
    shared_ids = set(first.ids).intersection(*[i.ids for i in items])
    shared = first.at([position for position, i in enumerate(first.ids) if i in shared_ids])
    values_SI = []
    for of_seed in items:
        values = dict(zip(of_seed.ids, of_seed.values, strict=True))
        values_SI.append([values[i] for i in shared.ids])
    return shared, np.array(values_SI)


def subtract_items(ours: Items, theirs: Items) -> Items:
    """Return ours - theirs for every id that both have."""
    if ours.ids == theirs.ids:
        return replace(ours, values=ours.values - theirs.values, units=ours.units or theirs.units)
    their_values = dict(zip(theirs.ids, theirs.values, strict=True))
    shared = ours.at([position for position, i in enumerate(ours.ids) if i in their_values])
    return replace(shared, values=shared.values - np.array([their_values[i] for i in shared.ids]))


def item_units(items: Items) -> Units:
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


@dataclass(frozen=True)
class ItemDifferences:
    """One metric of a column: the weight of its mean there, and the difference of every item under every seed."""

    benchmark: str
    weight: float
    ids: tuple[str, ...]
    gap_SI: np.ndarray
    units: Units


def estimate_spread(
    gap_S: Sequence[float], differences: Sequence[ItemDifferences] | None, prior: SeedPrior | None = None
) -> Spread:
    """Estimate what the mean of the seeds' differences varies by; `prior` is of the variance of one of them."""
    seeds = len(gap_S)
    _, std = mean_std(gap_S)
    by_unit = []
    noise = 0.0
    for same_source in group_by_source(differences or ()):
        error_SU = unit_errors(same_source)
        mean_U = error_SU.mean(axis=0)
        by_unit.append(Variance(float(mean_U @ mean_U), error_SU.shape[1] - 1))
        noise += float(((error_SU - mean_U) ** 2).sum()) / (seeds * max(seeds - 1, 1))
    if std is None:
        return Spread(seeds, None, tuple(by_unit), noise)
    variance = Variance(std**2, seeds - 1)
    if prior:
        variance = prior.moderate(variance)
    return Spread(seeds, replace(variance, value=variance.value / seeds), tuple(by_unit), noise)


def compute_interval(
    gap_S: Sequence[float], differences: Sequence[ItemDifferences] | None, prior: SeedPrior | None = None
) -> tuple[Interval | None, str]:
    """Compute the interval of the mean of the seeds' differences, and what it is over.

    Without items it is over the seeds alone. With one seed it is over the items alone, and then of these two models,
    not of their methods; with one seed and no items there is none.
    """
    mean = mean_std(gap_S)[0]
    spread = estimate_spread(gap_S, differences, prior)
    if not (spread.seed or spread.by_unit):
        return None, NEITHER
    basis = SEEDS_ALONE if not spread.by_unit else BOTH if spread.seed else ITEMS_ALONE
    half = spread.half_width()
    items = sum(len(difference.ids) for difference in differences or ())
    return Interval(mean, mean - half, mean + half, items, spread), basis


def describe_basis(basis: str) -> str:
    """Return the note beside an interval; empty for one over seeds and items."""
    return "" if basis == BOTH else basis


def group_by_source(differences: Sequence[ItemDifferences]) -> list[list[ItemDifferences]]:
    """Group metrics whose benchmarks have a picture in common, in the order of their first; chains are one group."""
    pictures_of: dict[str, set[int]] = {}
    for difference in differences:
        pictures_of.setdefault(difference.benchmark, set()).update(_pictures(difference.units))
    groups: list[tuple[set[str], set[int]]] = []
    for name, pictures in pictures_of.items():
        names = {name}
        for group in groups[:]:
            if not pictures.isdisjoint(group[1]):
                groups.remove(group)
                names |= group[0]
                pictures |= group[1]
        groups.append((names, pictures))
    members = []
    for names, _ in groups:
        members.append([difference for difference in differences if difference.benchmark in names])
    return sorted(members, key=lambda group: list(pictures_of).index(group[0].benchmark))


@lru_cache(maxsize=LISTS)
def _pictures(units: Units) -> frozenset[int]:
    """Return the numbers of pictures among units; names are of one benchmark alone."""
    return frozenset(unit for unit in units if isinstance(unit, int))


def unit_errors(differences: Sequence[ItemDifferences]) -> np.ndarray:
    """Return what each unit adds to each seed's error of the weighted sum of means, shape S x U.

    Their squares add up to its variance. A metric's mean is that of its items, of which a unit may have several.
    """
    numbered, size = _number_units(tuple(difference.units for difference in differences))
    error_SU = np.zeros((len(differences[0].gap_SI), size))
    for difference, (unit_I, units) in zip(differences, numbered, strict=True):
        scale = difference.weight / len(difference.ids) * sqrt(units / (units - 1))
        error_SI = scale * (difference.gap_SI - difference.gap_SI.mean(axis=1, keepdims=True))
        error_SU += np.stack([np.bincount(unit_I, error_I, size) for error_I in error_SI])
    return error_SU


@lru_cache(maxsize=LISTS)
def _number_units(lists: tuple[Units, ...]) -> tuple[list[tuple[np.ndarray, int]], int]:
    """Number the units of each list, equal names alike, and count those of each list and all of them.

    Subsets may name different records alike. To draw those together is no error: what they add to each other's
    variance is 0 in the mean.
    """
    number: dict[int | str, int] = {}
    numbered = []
    for units in lists:
        unit_I = np.array([number.setdefault(name, len(number)) for name in units])
        numbered.append((unit_I, len(set(units))))
    return numbered, len(number)

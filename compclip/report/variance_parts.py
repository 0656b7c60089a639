"""What the variance of a mean difference is made of, and half the width of its interval.

The variances of a mean over backbones, seeds and units that are crossed: `seed` is the spread of the seeds' means,
`backbone` that of the backbones' means, `by_unit` that of the units' means. Each has in it what its members add
together with those of the others: a backbone with a seed (`together`), and the noise of one seed, one backbone, or one
of both, on one unit. Of seeds and backbones, the fewer keep what is theirs together; it is taken off the others, and
all noise off the units. What remains are independent variances, and their interval is Banerjee's (Sankhya, 1960 and
1961): the square of its half width is the sum of each variance times the square of its own Student's factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt

import numpy as np

LEVEL = 0.05
LEVELS_K = np.geomspace(1.0, 1e-12, 400)  # of p values; none is said to be smaller
TABLES = 512  # of so many degrees of freedom are remembered
# A tenth of the noise is taken off the seeds' variance, and no less is left of it than nine tenths of the units' factor
# make. By integration 94 to 98 of 100 intervals of three or more seeds then hold the truth, whatever the variances are.
# So they do by Banerjee's rule alone, with which seeds that agree by chance leave an interval of almost no width.
NOISE_OFF, LEAST_FACTOR = 0.1, 0.9
# What seeds and backbones have together is taken off the more numerous of them a little more than whole: an estimate
# that is cut at 0 is too large in the mean. 94 to 98.5 of 100 intervals of 4 backbones and 3 seeds hold the truth.
TOGETHER_OFF = 1.2


@dataclass(frozen=True)
class Variance:
    """An estimate of a variance and the degrees of freedom that it rests on."""

    value: float
    freedom: float


@dataclass(frozen=True)
class BackboneSpread:
    """What a mean over several backbones varies by, each of them with the same seeds.

    `together` is the variance of a backbone and a seed beyond both, `noise` that of one backbone on one unit, and
    `noise_together` that of one backbone and seed on one unit, which is in all others.
    """

    backbones: int
    backbone: Variance
    together: float = 0.0
    noise: float = 0.0
    noise_together: float = 0.0


@dataclass(frozen=True)
class Spread:
    """What the variance of a mean difference over `seeds` is made of; `seed` is None where there is one.

    `noise`, of one seed on one unit, is in the seeds' variance and in that of the units.
    """

    seeds: int
    seed: Variance | None
    by_unit: tuple[Variance, ...]
    noise: float = 0.0
    over_backbones: BackboneSpread | None = None  # of one backbone: None

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
        units, over = self.unit, self.over_backbones
        trainings = [(self.seed, self.noise)] if self.seed else []
        trainings += [(over.backbone, over.noise)] if over else []
        trainings.sort(key=lambda training: training[0].freedom)
        if not trainings:
            return (units,) if units.value else ()
        first, noise = trainings[0]
        factor = LEAST_FACTOR * student_quantile(units.freedom) / student_quantile(first.freedom)
        first = replace(first, value=max(first.value - NOISE_OFF * noise, factor**2 * noise))
        second_training = []
        if over and self.seed:
            noise += trainings[1][1] - over.noise_together
            together = TOGETHER_OFF * max(over.together, over.noise_together)
            second_training = [replace(trainings[1][0], value=max(trainings[1][0].value - together, 0.0))]
        crossed = replace(units, value=max(units.value - noise, 0.0))
        return tuple(variance for variance in (first, *second_training, crossed) if variance.value > 0)

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
        """Return what the spread of so many seeds would be, by the variances of these; two or more."""
        if self.over_backbones:
            return self.with_sizes(self.over_backbones.backbones, seeds)
        noise = self.noise * self.seeds / seeds
        scaled = self._scale_units(self.unit.value - self.noise + noise)
        return Spread(seeds, Variance(self.shift / seeds + noise, seeds - 1), scaled, noise)

    def with_sizes(self, backbones: int, seeds: int) -> Spread:
        """Return what the spread of so many backbones and seeds would be, by the variances of several of both."""
        over = self.over_backbones
        assert over and self.seed, "of one backbone or seed nothing is known of others"
        per_backbone, per_seed = over.backbones / backbones, self.seeds / seeds
        both = over.noise_together * per_backbone * per_seed
        of_seed = max(self.noise - over.noise_together, 0.0)  # the noise that is not of both
        of_backbone = max(over.noise - over.noise_together, 0.0)
        together = max(over.together - over.noise_together, 0.0) * per_backbone * per_seed + both
        seed = max(self.seed.value - over.together - of_seed, 0.0) * per_seed
        backbone = max(over.backbone.value - over.together - of_backbone, 0.0) * per_backbone
        items = self.unit.value - of_seed - of_backbone - over.noise_together
        of_seed, of_backbone = of_seed * per_seed, of_backbone * per_backbone
        return Spread(
            seeds,
            Variance(seed + together + of_seed, seeds - 1),
            self._scale_units(items + of_seed + of_backbone + both),
            of_seed + both,
            BackboneSpread(
                backbones,
                Variance(backbone + together + of_backbone, backbones - 1),
                together,
                of_backbone + both,
                both,
            ),
        )

    def _scale_units(self, total: float) -> tuple[Variance, ...]:
        """Return the units' variances with another sum."""
        present = self.unit.value
        scale = max(total, 0.0) / present if present else 1.0
        return tuple(Variance(variance.value * scale, variance.freedom) for variance in self.by_unit)


def student_quantile(freedom: float, level: float = LEVEL) -> float:
    """Return the value that Student's t exceeds, on either side, in a share `level` of draws."""
    from scipy.special import stdtrit  # as long to import as numpy, and most commands ask for no interval

    return -float(stdtrit(freedom, level / 2))


@lru_cache(maxsize=TABLES)
def student_quantiles(freedom: float) -> np.ndarray:
    """Return the quantile of each level of `LEVELS_K`, in rising order."""
    return np.array([student_quantile(freedom, level) for level in LEVELS_K])


def _satterthwaite(terms: Sequence[Variance]) -> float:
    """Return the degrees of freedom of a sum of variances (Satterthwaite, 1946), to four digits; infinite for none."""
    squares = sum(term.value**2 / term.freedom for term in terms)
    total = sum(term.value for term in terms)
    return float(f"{total**2 / squares:.4g}") if squares else np.inf

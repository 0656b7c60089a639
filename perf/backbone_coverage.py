"""How often the 95 % intervals of a difference over backbones, seeds and items hold the truth.

    python -m perf.backbone_coverage [--samples 1000] [--sizes 4x3 3x3 2x5] [--columns winoground "sugarcrepe: "]

Outcomes are made as in perf/coverage.py: right where a normal score is above 0. A method's score is its mean, what its
backbone, its seed (the same under every backbone) and both together add, an item's difficulty that all models share, a
picture's effect on the method, a picture's effect on the method with one backbone, and noise. All are drawn anew for
each table, and the truth is known. Deviations are those of the noise; 0.15 of a seed are about 2 points.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import erf, sqrt

import numpy as np

from compclip.base.errors import entry
from compclip.report import statistics
from compclip.report.statistics import ItemDifferences
from perf.coverage import GAP, Structure, read_structures


@dataclass(frozen=True)
class Deviations:
    """What differs from draw to draw: backbones, seeds, both together, pictures, pictures with a backbone."""

    backbone: float = 0.0
    seed: float = 0.0
    together: float = 0.0
    picture: float = 0.7
    picture_backbone: float = 0.0

    @property
    def variance(self) -> float:
        """The variance of a score: this, an item's difficulty, and the noise."""
        parts = (self.backbone, self.seed, self.together, self.picture, self.picture_backbone)
        return sum(deviation**2 for deviation in parts) + 2


CONDITIONS = (
    Deviations(),
    Deviations(picture_backbone=0.7),
    Deviations(together=0.15),
    Deviations(seed=0.15),
    Deviations(backbone=0.05, together=0.15, picture_backbone=0.5),
    Deviations(backbone=0.15, together=0.15, picture_backbone=0.5),
    Deviations(backbone=0.15, seed=0.15, together=0.05, picture_backbone=0.5),
    Deviations(backbone=0.5, together=0.15, picture_backbone=0.5),
    Deviations(seed=0.5, together=0.15, picture_backbone=0.5),
    Deviations(backbone=0.5, seed=0.5, together=0.15, picture_backbone=0.5),
)


def measure_coverage(
    structure: Structure, sizes: tuple[int, int], made: Deviations, samples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the share of intervals that hold the truth, and their mean half width."""
    truth = _chance(GAP, made.variance) - _chance(0.0, made.variance)
    groups = [np.flatnonzero(structure.subset_I == index) for index in range(len(structure.benchmarks))]
    ids = [tuple(map(str, group.tolist())) for group in groups]
    units = [tuple(structure.picture_I[group].tolist()) for group in groups]
    hits, width = 0, 0.0
    for _ in range(samples):
        gap_TI = _draw_gaps(structure, sizes, made, rng)
        mean_T = np.mean([gap_TI[:, group].mean(axis=1) for group in groups], axis=0).tolist()
        differences = [
            ItemDifferences(benchmark, 1 / len(groups), group_ids, gap_TI[:, group], group_units)
            for benchmark, group_ids, group, group_units in zip(structure.benchmarks, ids, groups, units, strict=True)
        ]
        interval, _ = statistics.compute_interval(mean_T, differences, sizes[0])
        assert interval, "items and trainings vary"
        hits += interval.low <= truth <= interval.high
        width += (interval.high - interval.low) / 2
    return hits / samples, width / samples


def _draw_gaps(structure: Structure, sizes: tuple[int, int], made: Deviations, rng: np.random.Generator) -> np.ndarray:
    """Draw the differences of two methods' outcomes, the trainings of one backbone after those of another: T x I."""
    backbones, seeds = sizes
    items, pictures = len(structure.picture_I), structure.picture_I.max() + 1

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    difficulty_I, gap_BSI = draw(items), np.zeros((backbones, seeds, items))
    for mean, sign in ((GAP, 1), (0.0, -1)):
        shift_BS = mean + made.backbone * draw(backbones, 1) + made.seed * draw(seeds)
        shift_BS = (shift_BS + made.together * draw(backbones, seeds)).astype(np.float32)
        picture_BP = np.float32(made.picture) * draw(pictures)
        picture_BP = picture_BP + np.float32(made.picture_backbone) * draw(backbones, pictures)
        shared_B1I = (difficulty_I + picture_BP[:, structure.picture_I])[:, None]
        gap_BSI += sign * (draw(backbones, seeds, items) + shared_B1I + shift_BS[:, :, None] > 0)
    return gap_BSI.reshape(backbones * seeds, items)


def _chance(mean: float, variance: float) -> float:
    """Return how often a normal score is above 0."""
    return 0.5 * (1 + erf(mean / sqrt(2 * variance)))


def main(argv: Sequence[str]) -> int:
    """Print a line for each column, size and condition; return 1 where one is outside of 94 to 98 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1000, help="made tables of outcomes for each line")
    parser.add_argument("--sizes", nargs="+", default=["4x3", "3x3", "2x5"], help="backbones x seeds")
    parser.add_argument("--columns", nargs="+", default=["winoground"], help="beginnings of the names of columns")
    args = parser.parse_args(argv)
    outside, lines = 0, 0
    print(f"{'column':<24} {'sizes':>6} backbone  seed both picture with backbone  holds  half width")
    for name, structure in read_structures().items():
        for size in args.sizes if name.startswith(tuple(args.columns)) else ():
            backbones, seeds = map(int, size.split("x"))
            for number, made in enumerate(CONDITIONS):
                rng = np.random.default_rng((backbones, seeds, number, *map(ord, name)))
                held, width = measure_coverage(structure, (backbones, seeds), made, args.samples, rng)
                outside, lines = outside + (not 0.94 <= held <= 0.98), lines + 1
                deviations = f"{made.backbone:>8} {made.seed:>5} {made.together:>4} {made.picture:>7}"
                deviations += f" {made.picture_backbone:>13}"
                print(f"{name:<24} {size:>6} {deviations} {100 * held:>6.1f} {100 * width:>11.2f}", flush=True)
    print(f"{outside} of {lines} lines outside of 94 to 98 %")
    return int(outside > 0)


if __name__ == "__main__":
    sys.exit(entry(main))

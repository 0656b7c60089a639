"""How often the 95 % intervals of a difference hold the truth, with each benchmark's real pictures.

    python -m perf.coverage [--samples 4000] [--seeds 3 5] [--columns sugarcrepe valse] [--by-item] [--files FOLDER]

Outcomes are made: right where a normal score is above 0. A method's score is its mean, its seed's shift, an item's
difficulty that both methods share, a picture's effect on this method, and noise. The truth is known. How many items of
which subset each picture has is that of the official files, from FOLDER with `--files`, else from cluster_sizes.json,
which `--files FOLDER --write` makes. With `--by-item` intervals are made as if each item were a picture by itself.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import erf, sqrt
from pathlib import Path

import numpy as np

from compclip.base import plugins
from compclip.base.errors import entry
from compclip.base.files import write_json
from compclip.report import statistics
from compclip.report.statistics import ItemDifferences

SIZES = Path(__file__).with_name("cluster_sizes.json")
FROM_FILES = {"sugarcrepe": ("sugarcrepe", "sugarcrepe_pp"), "valse": ("valse",)}  # those of one key share pictures
GAP = 0.3  # between the methods' means, in deviations of the noise
# Deviations of the pictures' effects and of the seeds' shifts. A seed's 0.15 are about 2 points.
CONDITIONS = ((0.0, 0.0), (0.0, 0.15), (0.7, 0.0), (0.7, 0.15), (1.0, 0.15))


@dataclass(frozen=True)
class Structure:
    """Items of a mean over subsets: each one's picture, and the index of its subset; subsets weigh alike."""

    picture_I: np.ndarray
    subset_I: np.ndarray
    benchmarks: tuple[str, ...]  # of each subset

    def select(self, subsets: Sequence[int]) -> Structure:
        """Return the items of these subsets."""
        keep_I = np.isin(self.subset_I, subsets)
        new_index = np.zeros(len(self.benchmarks), int)
        new_index[list(subsets)] = np.arange(len(subsets))
        names = tuple(self.benchmarks[subset] for subset in subsets)
        return Structure(self.picture_I[keep_I], new_index[self.subset_I[keep_I]], names)


def read_structures(path: Path = SIZES) -> dict[str, Structure]:
    """Read the structure of each column."""
    structures = {}
    for name, table in json.loads(path.read_text()).items():
        rows = np.array(table["pictures"])
        count_PS = np.repeat(rows[:, :-1], rows[:, -1], axis=0)
        picture_P, subset_P = np.nonzero(count_PS)
        repeats = count_PS[picture_P, subset_P]
        benchmarks = tuple(subset.partition("/")[0] for subset in table["subsets"])
        all_subsets = Structure(np.repeat(picture_P, repeats), np.repeat(subset_P, repeats), benchmarks)
        structures.update(_list_columns(name, table["subsets"], all_subsets))
    return structures


def _list_columns(name: str, subsets: Sequence[str], structure: Structure) -> Iterator[tuple[str, Structure]]:
    """Yield the mean over all subsets, the means of each benchmark, and the subsets."""
    if len(subsets) > 1:
        yield f"{name}: mean of {len(subsets)}", structure
    benchmarks = dict.fromkeys(structure.benchmarks)
    for benchmark in benchmarks if len(benchmarks) > 1 else ():
        yield benchmark, structure.select([i for i, name in enumerate(structure.benchmarks) if name == benchmark])
    for index, subset in enumerate(subsets):
        yield subset, structure.select([index])


def write_sizes(files: Path, path: Path = SIZES) -> None:
    """Write how many items of each subset the pictures of the official files have, and those of others by hand."""
    tables = {name: _count_pictures(files, benchmarks) for name, benchmarks in FROM_FILES.items()}
    tables["retrieval_coco/t2i"] = {"subsets": ["retrieval_coco/t2i"], "pictures": [[5, 4990], [6, 10]]}
    tables["retrieval_flickr/t2i"] = {"subsets": ["retrieval_flickr/t2i"], "pictures": [[5, 1000]]}
    tables["winoground"] = {"subsets": ["winoground/text"], "pictures": [[1, 400]]}
    write_json(path, tables)


def _count_pictures(files: Path, names: Sequence[str]) -> dict:
    benchmarks = {name: plugins.load_plugin(plugins.BENCHMARKS, name).load(files / name) for name in names}
    items = [
        (benchmark.unit_pictures[benchmark.units[record.subset, record.id]], f"{name}/{record.subset}")
        for name, benchmark in benchmarks.items()
        for record in benchmark.records
    ]
    subsets, pictures = list(dict.fromkeys(s for _, s in items)), list(dict.fromkeys(p for p, _ in items))
    picture_index = {picture: index for index, picture in enumerate(pictures)}
    count_PS = np.zeros((len(pictures), len(subsets)), int)
    np.add.at(count_PS, ([picture_index[p] for p, _ in items], [subsets.index(s) for _, s in items]), 1)
    patterns = Counter(map(tuple, count_PS.tolist()))
    return {"subsets": subsets, "pictures": [[*pattern, count] for pattern, count in sorted(patterns.items())]}


def measure_coverage(
    structure: Structure,
    seeds: int,
    picture_sd: float,
    seed_sd: float,
    samples: int,
    rng: np.random.Generator,
    by_item: bool = False,
) -> float:
    """Return the share of intervals that hold the truth."""
    fixed = 1 + picture_sd**2 + 1 + seed_sd**2  # difficulty, picture, noise, seed
    truth = _chance(GAP, fixed) - _chance(0.0, fixed)
    groups = [np.flatnonzero(structure.subset_I == index) for index in range(len(structure.benchmarks))]
    ids = [tuple(map(str, group.tolist())) for group in groups]
    units = ids if by_item else [tuple(structure.picture_I[group].tolist()) for group in groups]
    hits = 0
    for _ in range(samples):
        gap_SI = _draw_gaps(structure, seeds, picture_sd, seed_sd, rng)
        mean_S = np.mean([gap_SI[:, group].mean(axis=1) for group in groups], axis=0).tolist()
        differences = [
            ItemDifferences(benchmark, 1 / len(groups), group_ids, gap_SI[:, group], group_units)
            for benchmark, group_ids, group, group_units in zip(structure.benchmarks, ids, groups, units, strict=True)
        ]
        interval, _ = statistics.compute_interval(mean_S, differences)
        hits += interval is not None and interval.low <= truth <= interval.high
    return hits / samples


def _draw_gaps(
    structure: Structure, seeds: int, picture_sd: float, seed_sd: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw the differences of two methods' outcomes, shape S x I."""
    items, pictures = len(structure.picture_I), structure.picture_I.max() + 1
    difficulty_I = rng.standard_normal(items, np.float32)
    gap_SI = np.zeros((seeds, items))
    for mean, sign in ((GAP, 1), (0.0, -1)):
        effect_I = np.float32(picture_sd) * rng.standard_normal(pictures, np.float32)[structure.picture_I]
        shift_S1 = np.float32(mean) + np.float32(seed_sd) * rng.standard_normal((seeds, 1), np.float32)
        score_SI = rng.standard_normal((seeds, items), np.float32) + (difficulty_I + effect_I) + shift_S1
        gap_SI += sign * (score_SI > 0)
    return gap_SI


def _chance(mean: float, variance: float) -> float:
    """Return how often a normal score is above 0."""
    return 0.5 * (1 + erf(mean / sqrt(2 * variance)))


def main(argv: Sequence[str]) -> int:
    """Print a line for each column, condition and number of seeds; return 1 where one is outside of 94 to 98 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4000, help="made tables of outcomes for each line")
    parser.add_argument("--by-item", action="store_true", help="count each item as a picture by itself")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 5], help="numbers of seeds")
    parser.add_argument("--columns", nargs="+", default=[""], help="beginnings of the names of columns")
    parser.add_argument("--files", type=Path, help="folder of official files, by benchmark")
    parser.add_argument("--write", action="store_true", help=f"write {SIZES.name} from them")
    args = parser.parse_args(argv)
    if args.files and args.write:
        write_sizes(args.files)
    outside = 0
    print(f"{'column':<28} {'items':>6} {'pictures':>8} {'seeds':>5} {'picture sd':>10} {'seed sd':>8}  holds")
    for name, structure in read_structures().items():
        if not name.startswith(tuple(args.columns)):
            continue
        for seeds in args.seeds:
            for condition in CONDITIONS:
                rng = np.random.default_rng((seeds, *map(ord, name)))
                held = measure_coverage(structure, seeds, *condition, args.samples, rng, args.by_item)
                outside += not 0.94 <= held <= 0.98
                sizes = f"{len(structure.picture_I):>6} {len(np.unique(structure.picture_I)):>8} {seeds:>5}"
                deviations = "{:>10} {:>8}".format(*condition)
                print(f"{name:<28} {sizes} {deviations} {100 * held:>6.1f}", flush=True)
    print(f"{outside} lines outside of 94 to 98 %")
    return int(outside > 0)


if __name__ == "__main__":
    sys.exit(entry(main))

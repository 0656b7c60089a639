"""How often the 95 % intervals of a difference hold the truth, with each benchmark's real pictures.

    python -m perf.truth.coverage [--samples 4000] [--seeds 3 5] [--columns valse] [--by-item] [--files FOLDER]
    python -m perf.truth.coverage --tables [--samples 4000] [--seeds 2 3 5]

Outcomes are made: right where a normal score is above 0. A method's score is its mean, its seed's shift, an item's
difficulty that both methods share, a picture's effect on this method, and noise. The truth is known. How many items of
which subset each picture has is that of the official files, from FOLDER with `--files`, else from cluster_sizes.json,
which `--files FOLDER --write` makes. With `--by-item` intervals are made as if each item were a picture by itself.

With `--tables` whole tables are made, and intervals by each row's own variance over seeds are compared with those that
the table's other rows moderate (`statistics.SeedPrior`): of rows beside the pretrained model, and of their differences
to a reference, one of the rows.

Takes some 20 minutes with 1,000 samples, a minute a column; needs nothing.
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
    structures: dict[str, Structure] = {}
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


# --- made tables of rows whose seeds vary alike or not

ROWS = (3, 6, 12, 40)
SPREADS = {"alike": (1, 1), "twofold": (1, 2), "fivefold": (1, 5), "one wild": (1, 1)}  # of the rows' deviations
WILD = 5.0  # the deviation of one diverging row
ITEM_NUMBERS = (0, 400)
POINTS = 0.15  # a seed's deviation on the scale of items' scores; about 2 points
PICTURE_SD = 0.7
MEASURES = ("row", "difference")  # beside the pretrained model, beside the reference
PLANTED = np.repeat([0.0, 4.0], 5)  # means of 10 rows, in deviations of a seed; the first is the reference


@dataclass(frozen=True)
class MadeTable:
    """Outcomes of trained rows, shape M x S x I, and of the pretrained model; true means and deviations over seeds."""

    outcome_MSI: np.ndarray
    pretrained_I: np.ndarray
    deviation_M: np.ndarray
    truth_M: np.ndarray  # of the difference to the pretrained model


@dataclass(frozen=True)
class MadeInterval:
    """An interval of a made table, its truth, and whether it is of the row whose deviation is the largest."""

    measure: str
    interval: statistics.Interval
    truth: float
    deviation: float
    is_widest: bool


def draw_table(
    rows: int, seeds: int, spread: str, items: int, rng: np.random.Generator, mean_M: np.ndarray | None = None
) -> MadeTable:
    """Draw a table, its rows in random order; without items an outcome is a seed's score."""
    deviation_M = np.geomspace(*SPREADS[spread], rows)
    if spread == "one wild":
        deviation_M[-1] = WILD
    deviation_M = rng.permutation(deviation_M)
    mean_M = np.zeros(rows) if mean_M is None else mean_M
    score_MS1 = (mean_M[:, None] + deviation_M[:, None] * rng.standard_normal((rows, seeds)))[:, :, None]
    if not items:
        return MadeTable(score_MS1, np.zeros(1), deviation_M, mean_M)
    difficulty_I = rng.standard_normal(items)
    effect_M1I = PICTURE_SD * rng.standard_normal((rows, 1, items))
    score_MSI = POINTS * score_MS1 + difficulty_I + effect_M1I + rng.standard_normal((rows, seeds, items))
    variance_M = 2 + PICTURE_SD**2 + (POINTS * deviation_M) ** 2
    truth_M = np.array([_chance(POINTS * mean, v) - 0.5 for mean, v in zip(mean_M, variance_M, strict=True)])
    pretrained_I = difficulty_I + rng.standard_normal(items) > 0
    return MadeTable((score_MSI > 0).astype(float), pretrained_I, deviation_M, truth_M)


def list_intervals(table: MadeTable, is_moderated: bool) -> Iterator[MadeInterval]:
    """Yield the interval of each row beside the pretrained model, and of each but the first beside the first."""
    outcome_MSI = table.outcome_MSI
    scores = [dict(enumerate(score_S)) for score_S in outcome_MSI.mean(axis=2)]
    priors = statistics.estimate_column_priors(scores) if is_moderated else statistics.ColumnPriors()
    widest = table.deviation_M.argmax()
    for row, outcome_SI in enumerate(outcome_MSI):
        interval = _make_interval(outcome_SI - table.pretrained_I, priors.row)
        yield MadeInterval("row", interval, table.truth_M[row], table.deviation_M[row], row == widest)
        if row:
            interval = _make_interval(outcome_SI - outcome_MSI[0], priors.pair)
            truth = table.truth_M[row] - table.truth_M[0]
            deviation = np.hypot(table.deviation_M[row], table.deviation_M[0])
            yield MadeInterval("difference", interval, truth, deviation, widest in (0, row))


def _make_interval(gap_SI: np.ndarray, prior: statistics.SeedPrior | None) -> statistics.Interval:
    ids = tuple(map(str, range(gap_SI.shape[1])))
    differences = [ItemDifferences("b", 1.0, ids, gap_SI, ids)] if len(ids) > 1 else None
    interval, _ = statistics.compute_interval(gap_SI.mean(axis=1).tolist(), differences, prior)
    assert interval
    return interval


def measure_tables(rows: int, seeds: int, spread: str, items: int, samples: int) -> dict[str, list[float]]:
    """Measure intervals before and after, of the same tables.

    By measure: shares that hold the truth and median half widths, in deviations or with items in points, before and
    after; then the share after of those that the widest row is in.
    """
    results: dict[str, list[float]] = {measure: [] for measure in MEASURES}
    for is_moderated in (False, True):
        rng = np.random.default_rng((rows, seeds, items, *map(ord, spread)))
        made: dict[str, list[MadeInterval]] = {measure: [] for measure in MEASURES}
        for _ in range(max(samples // rows, 50)):
            for m in list_intervals(draw_table(rows, seeds, spread, items, rng), is_moderated):
                made[m.measure].append(m)
        for measure, intervals in made.items():
            widths = [50 * (m.interval.high - m.interval.low) / (1 if items else 100 * m.deviation) for m in intervals]
            results[measure] += [_share_true(intervals), float(np.median(widths))]
            if is_moderated:
                results[measure].append(_share_true([m for m in intervals if m.is_widest]))
    return results


def _share_true(intervals: Sequence[MadeInterval]) -> float:
    """Return the percentage of intervals that hold the truth."""
    return 100 * float(np.mean([m.interval.low <= m.truth <= m.interval.high for m in intervals]))


def count_decided(seeds: int, spread: str, items: int, tables: int, is_moderated: bool) -> tuple[float, float]:
    """Count the decided differences of planted tables of 10 rows, and those that are false, as means over tables."""
    rng = np.random.default_rng((seeds, items, *map(ord, spread)))
    decided, false = 0, 0
    for _ in range(tables):
        table = draw_table(len(PLANTED), seeds, spread, items, rng, PLANTED)
        for made in list_intervals(table, is_moderated):
            if made.measure == "difference" and made.interval.sign:
                decided += 1
                false += made.interval.sign != np.sign(made.truth)
    return decided / tables, false / tables


def print_tables(seed_numbers: Sequence[int], samples: int) -> int:
    """Print coverage and half widths of made tables; return how many shares are outside of 94 to 98 %."""
    outside = 0
    print("              items  seeds  rows  spread    holds, width: before    after    holds for the widest row")
    for items in ITEM_NUMBERS:
        for seeds in seed_numbers:
            for rows in ROWS:
                for spread in SPREADS:
                    for measure, numbers in measure_tables(rows, seeds, spread, items, samples).items():
                        outside += not 94 <= numbers[2] <= 98
                        line = "{:>8.1f} {:>6.2f} {:>8.1f} {:>6.2f} {:>8.1f}".format(*numbers)
                        print(f"{measure:<12} {items:>6} {seeds:>6} {rows:>5}  {spread:<9} {line}", flush=True)
    print("decided of 9 differences of 10 rows, 5 of them true; false ones: before, after")
    for items in ITEM_NUMBERS:
        for seeds in seed_numbers:
            for spread in SPREADS:
                counts = [count_decided(seeds, spread, items, samples // 10, after) for after in (False, True)]
                line = "   ".join("{:.2f} {:.3f}".format(*count) for count in counts)
                print(f"{items:>6} {seeds:>6}  {spread:<9} {line}", flush=True)
    return outside


def main(argv: Sequence[str]) -> int:
    """Print a line for each column, condition and number of seeds; return 1 where one is outside of 94 to 98 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4000, help="made tables of outcomes for each line")
    parser.add_argument("--by-item", action="store_true", help="count each item as a picture by itself")
    parser.add_argument("--seeds", type=int, nargs="+", help="numbers of seeds; 3 and 5, of tables also 2")
    parser.add_argument("--tables", action="store_true", help="make tables, with and without the rows' prior")
    parser.add_argument("--columns", nargs="+", default=[""], help="beginnings of the names of columns")
    parser.add_argument("--files", type=Path, help="folder of official files, by benchmark")
    parser.add_argument("--write", action="store_true", help=f"write {SIZES.name} from them")
    args = parser.parse_args(argv)
    if args.files and args.write:
        write_sizes(args.files)
    if args.tables:
        outside = print_tables(args.seeds or [2, 3, 5], args.samples)
        print(f"{outside} lines outside of 94 to 98 %")
        return int(outside > 0)
    outside = 0
    print(f"{'column':<28} {'items':>6} {'pictures':>8} {'seeds':>5} {'picture sd':>10} {'seed sd':>8}  holds")
    for name, structure in read_structures().items():
        if not name.startswith(tuple(args.columns)):
            continue
        for seeds in args.seeds or [3, 5]:
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

"""The 95 % interval of a difference of two methods over seeds and items together.

S seeds, I items, U units. Seeds are a sample of all trainings, items one of all records, and the two are crossed: every
seed is scored on the same items. A unit is what is drawn at once: a picture with its captions and all records that show
it, in all metrics of its benchmark that a column is the mean of (`evaluate.benchmark.number_units`).

The mean's variance is that of a random two-way layout, seed + unit - noise: `seed` is the spread of the seeds' means,
`unit` that of the units' means over seeds, and the noise of one seed on one unit is in both, so that it is taken off
`seed`, never below 0. (To draw seeds and units anew, Owen's pigeonhole bootstrap, 2007, counts that noise more than
once, and the seeds' spread too little by 1 / S.) The interval is Student's t with Satterthwaite's degrees of freedom
(1946). How often it holds the truth is in tests/report/test_crossed.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from compclip.report import tables
from compclip.report.statistics import Interval, align_items, item_units, mean_std, subtract_items
from compclip.report.tables import Column
from compclip.runs.item_outcomes import Items
from compclip.runs.result_files import FinishedRun

BOTH, SEEDS_ALONE, ITEMS_ALONE, NEITHER = "seeds and items", "seeds alone", "items alone", ""
# The 97.5 % point of Student's t by degrees of freedom.
STUDENT = {1: 12.7062, 1.2: 8.6488, 1.5: 6.0167, 2: 4.3027, 2.5: 3.5747, 3: 3.1824, 4: 2.7764, 5: 2.5706, 6: 2.4469,
           7: 2.3646, 8: 2.3060, 9: 2.2622, 10: 2.2281, 12: 2.1788, 15: 2.1314, 20: 2.0860, 30: 2.0423, 60: 2.0003,
           np.inf: 1.95996}  # fmt: skip
LISTS = 64  # units of so many lists of ids are remembered

RunPair = tuple[FinishedRun, FinishedRun]  # of one seed


@dataclass(frozen=True)
class ItemDifferences:
    """One metric of a column: the weight of its mean there, and the difference of every item under every seed."""

    benchmark: str
    weight: float
    ids: tuple[str, ...]
    gap_SI: np.ndarray
    units: tuple[int, ...] | tuple[str, ...]


@dataclass(frozen=True)
class Variance:
    """An estimate of a variance and the degrees of freedom that it rests on."""

    value: float
    freedom: int


def collect_item_differences(
    column: Column, pairs: Sequence[RunPair], weight: float = 1.0
) -> list[ItemDifferences] | None:
    """Collect the metrics whose weighted means are the column, by the rules of `tables.column_value`.

    None where one of them keeps no items, or those of a single picture.
    """
    members = column.members or tables.mean_members(column, [ours for ours, _ in pairs])
    if members:
        by_member = [collect_item_differences(member, pairs, weight / len(members)) for member in members]
        return (
            [difference for differences in by_member if differences for difference in differences]
            if all(by_member)
            else None
        )
    gaps = [gap for ours, theirs in pairs if (gap := _subtract_runs(column, ours, theirs))]
    if len(gaps) < len(pairs):
        return None
    shared, gap_SI = align_items(gaps)
    difference = ItemDifferences(column.benchmark, weight, shared.ids, gap_SI, item_units(shared))
    return [difference] if len(set(difference.units)) > 1 else None


def _subtract_runs(column: Column, ours: FinishedRun, theirs: FinishedRun) -> Items | None:
    """Return ours - theirs on every item that both have; None where one keeps no items."""
    our_items, their_items = tables.collect_items([ours], column), tables.collect_items([theirs], column)
    return subtract_items(our_items[0], their_items[0]) if our_items and their_items else None


def compute_interval(
    gap_S: Sequence[float], differences: Sequence[ItemDifferences] | None
) -> tuple[Interval | None, str]:
    """Compute the interval of the mean of the seeds' differences, and what it is over.

    Without items it is over the seeds alone. With one seed it is over the items alone, and then of these two models,
    not of their methods; with one seed and no items there is none.
    """
    mean, std = mean_std(gap_S)
    size = len(gap_S)
    seed = Variance(std**2 / size, size - 1) if std is not None else None
    by_unit, noise = _estimate_unit_variances(differences or ())
    if seed is None and not by_unit:
        return None, NEITHER
    half = half_width(seed, by_unit, noise)
    basis = ITEMS_ALONE if seed is None else BOTH if by_unit else SEEDS_ALONE
    return Interval(mean, mean - half, mean + half, sum(len(difference.ids) for difference in differences or ())), basis


def describe_basis(basis: str) -> str:
    """Return the note beside an interval; empty for one over seeds and items."""
    return "" if basis == BOTH else basis


def half_width(seed: Variance | None, by_unit: Sequence[Variance], noise: float) -> float:
    """Return half of the interval from the variances of the mean: over seeds, over units, and their noise."""
    total = sum(variance.value for variance in by_unit) + (max(seed.value - noise, 0.0) if seed else 0.0)
    if total == 0:
        return 0.0
    terms = [*by_unit, *([seed] if seed else [])]
    freedom = total**2 / sum(term.value**2 / term.freedom for term in terms)
    return student_quantile(max(freedom, min(term.freedom for term in terms))) * sqrt(total)


def student_quantile(freedom: float) -> float:
    """Return the 97.5 % point of Student's t, linear in 1 / freedom between the points of the table."""
    table = sorted(STUDENT.items(), reverse=True)
    return float(np.interp(1 / freedom, [1 / f for f, _ in table], [t for _, t in table]))


def _estimate_unit_variances(differences: Sequence[ItemDifferences]) -> tuple[list[Variance], float]:
    """Return the variance of the mean over each benchmark's units, and the noise of seeds on units in it."""
    by_unit, noise = [], 0.0
    for benchmark in dict.fromkeys(difference.benchmark for difference in differences):
        error_SU = unit_errors([difference for difference in differences if difference.benchmark == benchmark])
        seeds, size = error_SU.shape
        mean_U = error_SU.mean(axis=0)
        by_unit.append(Variance(float(mean_U @ mean_U), size - 1))
        noise += float(((error_SU - mean_U) ** 2).sum()) / (seeds * max(seeds - 1, 1))
    return by_unit, noise


def unit_errors(differences: Sequence[ItemDifferences]) -> np.ndarray:
    """Return what each unit adds to each seed's error of the weighted sum of means, shape S x U.

    Their squares add up to its variance. A metric's mean is that of its items, of which a unit may have several.
    """
    numbered, size = _number_units(tuple(difference.units for difference in differences))
    error_SU = np.zeros((len(differences[0].gap_SI), size))
    for difference, unit_I in zip(differences, numbered, strict=True):
        units = len(np.unique(unit_I))
        scale = difference.weight / len(difference.ids) * sqrt(units / (units - 1))
        error_SI = scale * (difference.gap_SI - difference.gap_SI.mean(axis=1, keepdims=True))
        error_SU += np.stack([np.bincount(unit_I, error_I, size) for error_I in error_SI])
    return error_SU


@lru_cache(maxsize=LISTS)
def _number_units(lists: tuple[tuple[int, ...] | tuple[str, ...], ...]) -> tuple[list[np.ndarray], int]:
    """Number the units of each list, equal names alike; also return how many different ones there are.

    Subsets may name different records alike. To draw those together is no error: what they add to each other's
    variance is 0 in the mean.
    """
    number: dict[int | str, int] = {}
    return [np.array([number.setdefault(name, len(number)) for name in units]) for units in lists], len(number)

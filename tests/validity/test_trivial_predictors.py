"""What published numbers alone predict, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

from compclip.validity import trivial_predictors
from compclip.validity.difference_pairs import PrintedDifference
from tests.validity.test_validity import pair


def printed(*gaps: float) -> tuple[PrintedDifference, ...]:
    """A difference of each of several backbones."""
    return tuple(PrintedDifference("P", "1", "r", "m", f"B{i}", "", "a/x", gap) for i, gap in enumerate(gaps))


def test_the_mean_of_the_others_by_hand():
    """1, 2 and 6 in one column; the method of another column stands alone, and is left out."""
    pairs = [pair(f"m{i}", "a/x", theirs, 0) for i, theirs in enumerate((1, 2, 6))] + [pair("m0", "b/x", 5, 0)]
    predictions = {p.row: p.ours for p in trivial_predictors.predict_by_column_mean(pairs)}
    assert predictions == {"m0": (4,), "m1": (3.5,), "m2": (1.5,)}


def test_one_half_of_the_models_predicts_the_other():
    """Of 1, 2, 3 and 5 on four backbones the second and fourth predict the first and third, and the other way round."""
    several = replace(pair("m0", "a/x", 0, 0), printed=printed(1, 2, 3, 5))
    single = pair("m1", "a/x", 4, 0)
    for half, published, prediction in ((0, 2, 3.5), (1, 3.5, 2)):
        (predicted,) = trivial_predictors.predict_by_other_models([several, single], half)
        assert (predicted.published, predicted.mean) == (published, prediction)


def test_less_is_better_on_both_sides():
    several = replace(pair("m0", "a/x", 0, 0, lower=True), printed=printed(1, 2))
    (predicted,) = trivial_predictors.predict_by_other_models([several])
    assert (predicted.published, predicted.mean) == (-1, -2)


def test_the_columns_mean_says_nothing_within_a_column():
    """It tells which columns move, not which method moves them: columns of 1 to 4 and of -4 to -1."""
    gaps = {"a/x": (1, 2, 3, 4), "b/x": (-1, -2, -3, -4)}
    pairs = [pair(f"m{i}", column, gap, math.pi) for column, values in gaps.items() for i, gap in enumerate(values)]
    by_column, by_models = trivial_predictors.summarize_predictors(pairs)
    assert by_column.within.rho.value is None and by_column.signs.value == 1 and by_column.raw.rho.value > 0.5
    assert by_models.pairs == 0 and by_models.raw.rho.value is None

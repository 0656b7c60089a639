"""What published numbers alone predict, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

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
    """Of 1, 2, 3 and 7 on four backbones two predict the others, in every way in which they can be dealt."""
    several = replace(pair("m0", "a/x", 0, 0), printed=printed(1, 2, 3, 7))
    single = pair("m1", "a/x", 4, 0)
    deals = set()
    for deal in range(40):
        (predicted,) = trivial_predictors.predict_by_other_models([several, single], deal)
        deals.add((predicted.published, predicted.mean))
    assert deals == {(1.5, 5), (5, 1.5), (2, 4.5), (4.5, 2), (4, 2.5), (2.5, 4)}


def test_a_deal_parts_a_row_s_models_alike_in_every_column():
    """The model that predicts in one column predicts in the others."""
    pairs = [replace(pair("m0", column, 0, 0), printed=printed(1, 2)) for column in ("a/x", "b/x", "c/x")]
    for deal in range(10):
        assert len({p.mean for p in trivial_predictors.predict_by_other_models(pairs, deal)}) == 1
    assert {trivial_predictors.predict_by_other_models(pairs, deal)[0].mean for deal in range(10)} == {1, 2}


def test_the_ceiling_of_models_that_agree_is_1_and_of_opposite_ones_its_negative():
    """Six methods on two backbones; on the second the order is the same, or the opposite one."""
    for sign in (1, -1):
        gaps = [(method, sign * method) for method in range(1, 7)]
        pairs = [replace(pair(f"m{m}", "a/x", 0, 0), printed=printed(*both)) for m, both in enumerate(gaps)]
        ceiling = trivial_predictors.measure_ceiling([*pairs, pair("alone", "a/x", 1, 0)])
        assert (ceiling.pairs, ceiling.methods) == (6, 6)
        for estimate in (ceiling.within, ceiling.raw):
            assert (estimate.value, estimate.low, estimate.high) == pytest.approx((sign, sign, sign))
        assert ceiling.signs.value == (sign > 0)


def test_the_ceiling_is_the_mean_over_deals():
    """Of four methods one has models that disagree: how they are dealt decides, and 1 is not reached."""
    gaps = [(1, 1), (2, 2), (3, 3), (4, 0)]
    pairs = [replace(pair(f"m{m}", "a/x", 0, 0), printed=printed(*both)) for m, both in enumerate(gaps)]
    ceiling = trivial_predictors.measure_ceiling(pairs).within
    # ranks 1 2 3 4 against 2 3 4 1, whichever side: 1 - 6 * (1 + 1 + 1 + 9) / 60
    assert (ceiling.value, ceiling.low, ceiling.high) == pytest.approx((-0.2, -0.2, -0.2))


def test_less_is_better_on_both_sides():
    several = replace(pair("m0", "a/x", 0, 0, lower=True), printed=printed(1, 2))
    (predicted,) = trivial_predictors.predict_by_other_models([several], 0)
    assert {predicted.published, predicted.mean} == {-1, -2}


def test_the_columns_mean_says_nothing_within_a_column():
    """It tells which columns move, not which method moves them: columns of 1 to 4 and of -4 to -1."""
    gaps = {"a/x": (1, 2, 3, 4), "b/x": (-1, -2, -3, -4)}
    pairs = [pair(f"m{i}", column, gap, math.pi) for column, values in gaps.items() for i, gap in enumerate(values)]
    trivial = trivial_predictors.summarize_predictors(pairs)
    by_column, always_up = trivial.column_means, trivial.always_up
    assert by_column.within.rho.value is None and by_column.signs.value == 1 and by_column.raw.rho.value > 0.5
    assert always_up.signs.value == 0.5 and always_up.raw.rho.value is always_up.within.rho.value is None
    assert trivial_predictors.measure_ceiling(pairs).within.value is None

"""Means, ranks and pairs of items against numbers worked out by hand."""

import numpy as np
import pytest

from compclip.report import statistics
from compclip.runs.item_outcomes import Items


def test_standard_deviation_divides_by_n_minus_one():
    assert statistics.mean_std([0.4, 0.6]) == pytest.approx((0.5, 0.02**0.5))
    assert statistics.mean_std([0.7]) == (0.7, None)


def test_pairs_go_by_id_not_by_place():
    ours, theirs = Items(("a", "b"), np.array([1.0, 0.0])), Items(("b", "a", "c"), np.array([1.0, 0.0, 1.0]))
    assert statistics.subtract_items(ours, theirs).values.tolist() == [1.0, -1.0]


def test_records_of_one_unit_keep_it():
    """Whatever their ids; through the seeds and the difference to another model, also on fewer items."""
    ours = Items(("0", "1", "2", "3"), np.array([0.0, 1.0, 1.0, 1.0]), units=(7, 2, 2, 2))
    theirs = Items(("3", "2", "1"), np.zeros(3))
    shared, gap_SI = statistics.align_items([statistics.subtract_items(ours, theirs)] * 2)
    assert (shared.ids, statistics.item_units(shared)) == (("1", "2", "3"), (2, 2, 2))
    assert gap_SI.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_captions_of_a_picture_are_one_unit():
    captions = Items(("a.jpg#0", "b#1.jpg#0", "b#1.jpg#1"), np.zeros(3))
    assert statistics.item_units(captions) == ("a.jpg", "b#1.jpg", "b#1.jpg")
    assert statistics.item_units(Items(("a#0", "b"), np.zeros(2))) == ("a#0", "b")


@pytest.mark.parametrize(("low", "high", "sign"), [(0.1, 0.2, 1), (-0.2, -0.1, -1), (-0.1, 0.1, 0), (0.0, 0.1, 0)])
def test_an_interval_that_touches_zero_decides_nothing(low, high, sign):
    assert statistics.Interval(0.1, low, high, 10).sign == sign


def test_the_same_names_give_the_same_draws():
    first_generator, second_generator = statistics.named_generator("a", "b"), statistics.named_generator("a", "b")
    assert first_generator.random() == second_generator.random() != statistics.named_generator("ab").random()

"""Slices of items: a planted one is found, and without one the family-wise error is held."""

import numpy as np

from compclip.report.row_items import search_slices

UNITS, EACH, NAMES = 120, 3, 40


def make_items(seed: int, picture_effect: float = 0.0) -> tuple[np.ndarray, np.ndarray, dict, np.random.Generator]:
    """Differences of -1, 0 and 1 on pictures with three records each, and slices drawn at random, whole pictures too."""
    rng = np.random.default_rng(seed)
    unit_I = np.repeat(np.arange(UNITS), EACH)
    of_unit = np.repeat(rng.random(UNITS) < picture_effect, EACH)
    item_differences = rng.choice([-1.0, 0, 0, 0, 1.0, 1.0], UNITS * EACH)
    shared = np.repeat(rng.choice([-1.0, 0.0, 1.0, 1.0], UNITS), EACH)
    members = {}
    for k in range(NAMES // 2):
        members[f"slice {k}"] = np.flatnonzero(rng.random(UNITS * EACH) < rng.uniform(0.05, 0.5))
    for k in range(NAMES // 2):
        members[f"pictures {k}"] = np.flatnonzero(np.repeat(rng.random(UNITS) < rng.uniform(0.1, 0.5), EACH))
    return np.where(of_unit, shared, item_differences), unit_I, members, rng


def test_the_family_wise_error_is_held():
    """In 200 made benchmarks whose slices tell nothing, with and without pictures that answer alike, about 5 % show one."""
    for effect in (0.0, 0.8):
        has_slices = [bool(search_slices(*make_items(seed, effect), flips=200).slices) for seed in range(200)]
        assert np.mean(has_slices) <= 0.09  # 0.05 and three standard deviations


def test_a_planted_slice_is_found():
    """Items of one word fall by half a point each; a slice with half of them is found after it."""
    difference_I, unit_I, members, rng = make_items(1)
    word = np.flatnonzero(rng.random(len(unit_I)) < 0.2)
    difference_I[word] -= 1
    members |= {"word: above": word, "half": word[::2]}
    first, *further_slices = search_slices(difference_I, unit_I, members, rng).slices
    assert first.name == "word: above" and first.p < 0.01 and first.items == len(word)
    assert first.difference < first.elsewhere - 0.8
    assert {s.name for s in further_slices} <= {"half"}


def test_slices_in_which_nothing_happens_are_no_finding():
    """One item in fifty differs: that none of a slice's thirty does is no surprise."""
    rng = np.random.default_rng(0)
    difference_I = np.where(rng.random(3000) < 0.02, 1.0, 0.0)
    quiet = np.flatnonzero(difference_I == 0)
    members = {f"quiet {k}": rng.choice(quiet, 30, replace=False) for k in range(50)}
    assert search_slices(difference_I, np.arange(3000), members, rng, flips=500).slices == ()


def test_small_slices_and_the_same_items_are_tried_once():
    """Nine pictures are too few, inside or outside; of two names for the same items the first is shown."""
    rng = np.random.default_rng(0)
    difference_I = np.r_[np.ones(20), np.zeros(60)]
    members = {"all but nine": range(71), "nine": range(9), "first": range(20), "second": range(19, -1, -1)}
    search = search_slices(difference_I, np.arange(80), members, rng, flips=500)
    assert [s.name for s in search.slices] == ["first"] and (search.tried, search.left_out) == (1, 0)
    assert search_slices(np.zeros(0), np.zeros(0, int), {}, rng).tried == 0


def test_results_depend_on_the_generator_alone():
    first, second = (search_slices(*make_items(3, 0.8), flips=300) for _ in range(2))
    assert first == second

"""How often intervals hold the truth with SugarCrepe's real pictures; all benchmarks are in `perf/truth/coverage.py`."""

import json
from collections import Counter

import numpy as np
import pytest

from perf.truth import coverage


@pytest.fixture(scope="module")
def structures():
    return coverage.read_structures()


def test_sizes_are_those_of_the_official_files(structures):
    counts = {name: (len(s.picture_I), len(np.unique(s.picture_I))) for name, s in structures.items()}
    assert counts["sugarcrepe"] == (7511, 1560) and counts["sugarcrepe_pp"] == (4757, 1542)
    assert counts["sugarcrepe: mean of 12"] == (12268, 1560)  # the same pictures


def test_sizes_are_written_as_shipped(shared_data, tmp_path):
    coverage.write_sizes(shared_data, tmp_path / "sizes.json")
    shipped, measured = (json.loads(path.read_text()) for path in (coverage.SIZES, tmp_path / "sizes.json"))
    assert shipped == measured


@pytest.mark.parametrize("seeds", [3, 5])
def test_intervals_hold_the_truth_with_real_pictures(seeds, structures):
    """swap_obj's 245 records, where seeds and pictures vary; 1,000 draws."""
    rng = np.random.default_rng(seeds)
    covered_share = coverage.measure_coverage(structures["sugarcrepe_pp/swap_obj"], seeds, 0.7, 0.15, 1000, rng)
    assert 0.94 <= covered_share <= 0.98


def test_counted_one_by_one_items_promise_too_much(structures):
    """SugarCrepe and SugarCrepe++ together, five seeds: what this check would find."""
    structure = structures["sugarcrepe: mean of 12"]
    by_picture, by_item = (
        coverage.measure_coverage(structure, 5, 0.7, 0.0, 40, np.random.default_rng(0), by_item)
        for by_item in (False, True)
    )
    assert by_picture >= 0.9 and by_item <= 0.85


def test_a_structure_keeps_its_pictures_in_each_selection(structures):
    structure = structures["sugarcrepe: mean of 12"]
    selected = structure.select([0, 11])
    sizes = Counter(structure.subset_I.tolist())
    assert Counter(selected.subset_I.tolist()) == {0: sizes[0], 1: sizes[11]}
    assert selected.benchmarks == ("sugarcrepe", "sugarcrepe_pp")

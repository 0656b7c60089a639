"""A small selection of what the programs of perf/faults try as a whole."""

import pytest

from perf.faults import delimited_files, hostile_files, long_captions


def test_delimited_files_lose_nothing_in_silence(tmp_path):
    assert delimited_files.try_files(60, 0, tmp_path) == []


@pytest.mark.parametrize("kind", hostile_files.KINDS)
def test_small_files_take_little(tmp_path, kind):
    """No traceback, less than a GiB above the start, and seconds."""
    assert [hostile_files.try_file(kind, number, 0, tmp_path) for number in range(2)] == ["", ""]


def test_rules_take_long_captions():
    """Of 1,000 words too: a list of 500 nouns has 125,000 pairs, of which none is a negative."""
    count, defects, _ = long_captions.try_rules([10, 30, 1000], 1)
    assert count > 400 and defects == []


@pytest.mark.long
def test_rules_take_the_longest_captions():
    """Some 2,500 words are the most that enters."""
    assert long_captions.try_rules([1000, 2500], 1, longest_s=60)[1] == []


@pytest.mark.long
def test_five_hundred_small_files_take_little(tmp_path):
    assert hostile_files.try_files(500, 0, tmp_path) == []

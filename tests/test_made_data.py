"""What `perf/data.py` makes stands for real data: shards of other numbers are those that an analysis would give."""

from __future__ import annotations

from collections import Counter

import pytest

from compclip.data import tars
from compclip.text import annotate
from perf import data_kills, data_made


def test_renumbered_annotations_are_those_of_the_texts():
    """Column by column, with digits of another length within the eight."""
    texts = [f"A black dog sees two red birds. Its number is {i:08d}." for i in (0, 7)]
    more = [f"A black dog sees two red birds. Its number is {i:08d}." for i in (90_000, 90_007)]
    made = data_made.Renumbered(annotate.columns(texts, Counter()).array(), 90_000).array()
    assert made.to_pylist() == annotate.columns(more, Counter()).array().to_pylist()


def test_tars_differ_in_every_caption(tmp_path):
    """And in no picture; each has its caption twice, as img2dataset writes it."""
    data_made.tars(tmp_path, 2, 3)
    texts = []
    for path in sorted(tmp_path.glob("*.tar")):
        for group in tars.groups(str(path)):
            text, noted = (tars.content(str(path), group.members[kind], 1 << 20).decode() for kind in ("txt", "json"))
            assert text in noted and len(text.split()) >= 70
            texts.append(text)
    assert len(set(texts)) == 6
    assert [int(text[-9:-1]) for text in texts] == list(range(6))


@pytest.mark.parametrize("number", [0, 1, 191, 2**16 - 1])
def test_a_picture_tells_its_number(number):
    """After JPEG, by which a server sees it."""
    assert data_kills.number_of(data_kills.numbered(number)) == number

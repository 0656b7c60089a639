"""What `perf/made_tars.py` writes stands for real data: shards of other numbers are those that an analysis would give."""

from __future__ import annotations

from collections import Counter

from compclip.data import tar_members
from compclip.text import spacy_parser
from perf import made_tars


def test_renumbered_annotations_are_those_of_the_texts():
    """Column by column, with digits of another length within the eight."""
    texts = [f"A black dog sees two red birds. Its number is {i:08d}." for i in (0, 7)]
    more = [f"A black dog sees two red birds. Its number is {i:08d}." for i in (90_000, 90_007)]
    renumbered = made_tars.Renumbered(spacy_parser.annotate_columns(texts, Counter()).array(), 90_000).array()
    assert renumbered.to_pylist() == spacy_parser.annotate_columns(more, Counter()).array().to_pylist()


def test_tars_differ_in_every_caption(tmp_path):
    """And in no picture; each has its caption twice, as img2dataset writes it."""
    made_tars.tars(tmp_path, 2, 3)
    texts = []
    for path in sorted(tmp_path.glob("*.tar")):
        for group in tar_members.iterate_samples(str(path)):
            text, noted = (
                tar_members.read_member(str(path), group.members[kind], 1 << 20).decode() for kind in ("txt", "json")
            )
            assert text in noted and len(text.split()) >= 70
            texts.append(text)
    assert len(set(texts)) == 6
    assert [int(text[-9:-1]) for text in texts] == list(range(6))

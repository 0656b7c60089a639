"""NLVR: each sentence's true drawings against its false ones."""

import json

import pytest

from compclip.benchmarks import nlvr

ROWS = [
    {"identifier": "7-0", "sentence": "a tower", "label": "true", "directory": "3"},
    {"identifier": "7-2", "sentence": "a tower", "label": "false", "directory": "3"},
    {"identifier": "8-0", "sentence": "a box", "label": "false", "directory": "0"},
]


@pytest.fixture
def folder(dump):
    return dump("n/dev/dev.json", "\n".join(map(json.dumps, ROWS))).parent.parent


def test_a_record_of_each_sentence_with_both_labels(folder, dump):
    dump("n/dev/images/none.txt", "")
    (record,) = nlvr.load(folder).records
    assert record.id == "7" and record.texts == ("a tower",) and len(record.images) == 12
    assert record.images[6] == str(folder / "dev/images/3/dev-7-2-0.png")
    assert nlvr.load(folder / "dev").records == (record,) and nlvr.load(folder).dropped == {"one_label": 1}


def test_the_share_of_pairs_in_order(folder, embeddings):
    """Two of six true drawings are above all false ones, four below them: 12 of 36 pairs; one equal pair is wrong."""
    benchmark = nlvr.load(folder)
    heights = [9, 9, 0, 0, 0, 0, *([5] * 6)]
    vectors = {picture: [height, 1] for picture, height in zip(benchmark.images, heights, strict=True)}
    result = benchmark.score(embeddings(vectors, {"a tower": [1, 0]}))
    assert result.metrics == {"pairs": pytest.approx(1 / 3), "all_pairs": 0.0} and result.counts["tied"] == 0
    vectors[benchmark.images[2]] = [5, 1]
    assert benchmark.score(embeddings(vectors, {"a tower": [1, 0]})).counts["tied"] == 1
    high = {picture: [9 if place < 6 else 5, 1] for place, picture in enumerate(benchmark.images)}
    assert benchmark.score(embeddings(high, {"a tower": [1, 0]})).metrics == {"pairs": 1.0, "all_pairs": 1.0}


def test_the_released_development_set(shared_data):
    benchmark = nlvr.load(shared_data / "nlvr")
    assert len(benchmark) == len(set(benchmark.units.values())) == 246 and benchmark.dropped == {"one_label": 21}

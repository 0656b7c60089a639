"""NLVR2: sentences about two photographs, the mean of whose cosines is compared."""

import json

import pytest

from compclip.benchmarks import nlvr2

ROWS = [
    {"identifier": "dev-5-0-1", "sentence": "two dogs", "label": "True"},
    {"identifier": "dev-5-2-1", "sentence": "two dogs", "label": "False", "directory": 44},
    {"identifier": "dev-5-2-0", "sentence": "a cat", "label": True},
]


@pytest.fixture
def folder(dump, picture):
    picture("n/images/44/dev-5-2-img1.png")
    picture("n/images/dev/dev-5-0-img0.png")
    return dump("n/dev.json", "\n".join(map(json.dumps, ROWS))).parent


def test_examples_of_one_sentence_and_where_photographs_lie(folder):
    (record,) = nlvr2.load(folder).records
    names = ("dev/dev-5-0-img0", "dev-5-0-img1", "dev-5-2-img0", "44/dev-5-2-img1")
    assert record.images == tuple(str(folder / f"images/{name}.png") for name in names)
    assert (record.id, record.texts) == ("5-1", ("two dogs",))


def test_the_mean_of_both_photographs(folder, embeddings):
    """4 and 0 have a mean of 2, above 1 and 1."""
    benchmark = nlvr2.load(folder)
    for heights, right in (((4, 0, 1, 1), 1.0), ((2, 0, 1, 2), 0.0), ((1, 1, 2, 0), 0.0)):
        vectors = {picture: [height, 1] for picture, height in zip(benchmark.images, heights, strict=True)}
        result = benchmark.score(embeddings(vectors, {"two dogs": [1, 0]}))
        assert result.metrics == {"pairs": right, "all_pairs": right}

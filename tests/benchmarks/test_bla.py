"""BLA: two right and two wrong sentences a picture, the nearest two of which are judged right."""

import numpy as np
import pytest

from compclip.benchmarks import bla

GROUP = {"True1": "r", "True2": "s", "False1": "w", "False2": "v"}
ROWS = [{"image_id": 1, "caption_group": [GROUP, GROUP]}, {"image_id": "2", "caption_group": [GROUP | {"True1": "t"}]}]


@pytest.fixture
def folder(dump):
    for file in bla.FILES.values():
        dump(f"b/annotations/{file}", ROWS)
    return dump("b/images/none.txt", "").parent.parent


def test_the_first_group_of_each_picture(folder):
    benchmark = bla.load(folder)
    first, second = benchmark.records[:2]
    assert first.images == (str(folder / "images/1.jpg"),) and first.texts == ("r", "s", "w", "v")
    assert second.texts == ("t", "s", "w", "v") and benchmark.dropped == {"further_group": 3}
    assert bla.load(folder / "annotations", folder / "images").records == benchmark.records


def test_the_share_that_is_judged_as_it_is(folder, embeddings):
    """Of the first picture both right ones are nearest, of the second one of them."""
    benchmark = bla.load(folder, split="coordination,relative_clause")
    texts = {"r": [9, 0], "s": [8, 3], "w": [7, 5], "v": [0, 1], "t": [0, 9]}
    result = benchmark.score(embeddings(dict(zip(benchmark.images, ([1, 0], [0, 1]), strict=True)), texts))
    assert result.items["coordination"].values.tolist() == [1.0, 0.5]
    assert "average" not in result.metrics  # of two constructions


def rank(scores) -> list[int]:
    order = sorted(range(4), key=lambda place: -scores[place])
    return [order.index(place) + 1 for place in range(4)]


def test_the_authors_accuracy():
    """Of ranks 1 to 4: the first two sentences belong into the upper half, the others into the lower."""
    scores_4N = np.random.default_rng(0).normal(size=(4, 200))
    expected = [sum((place < 2) == (r <= 2) for place, r in enumerate(rank(scores))) / 4 for scores in scores_4N.T]
    assert bla.outcomes(*scores_4N)[""].tolist() == expected and set(expected) == {0.0, 0.5, 1.0}

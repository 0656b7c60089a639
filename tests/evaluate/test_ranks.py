"""Ranks counted block by block are those of the whole table of scores."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.evaluate import metrics


def count_ranks(image_ID, text_TD, owner_T, at_once=metrics.AT_ONCE):
    blocks = metrics.product_blocks(image_ID, text_TD)
    return metrics.rank_both_ways(blocks, len(image_ID), owner_T, at_once=at_once)[:2]


def ranks_from_table(scores_IT, owner_T):
    return metrics.rank_both_ways(metrics.table_blocks(scores_IT), len(scores_IT), owner_T)[:2]


AXES = np.eye(3, dtype=np.float32)


def test_by_hand():
    """Image 0 has the axes x and y as texts, image 1 x again: it ties with the first, whose own it is not."""
    image_ID, text_TD = AXES[[0, 2]], AXES[[0, 1, 0, 2]]
    i2t_I3, t2i_T3 = count_ranks(image_ID, text_TD, np.array([0, 0, 1, 1]))
    assert i2t_I3.tolist() == [[1, 0, 0], [0, 0, 0]]  # text 2 is as near to image 0 as its own text 0, which is first
    assert t2i_T3.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]]  # y is as far from both images


@st.composite
def retrieval(draw):
    """A few images and texts, many of them equal, every image with a text."""
    images, texts = draw(st.integers(1, 5)), draw(st.integers(0, 6))
    owners = [*range(images), *draw(st.lists(st.integers(0, images - 1), min_size=texts, max_size=texts))]
    numbers = st.sampled_from([0.0, 0.5, 1.0, float("nan")])
    vector = st.lists(numbers, min_size=2, max_size=2)
    rows = draw(st.lists(vector, min_size=images + len(owners), max_size=images + len(owners)))
    vectors = np.array(rows, dtype=np.float32)
    return vectors[:images], vectors[images:], np.array(draw(st.permutations(owners)))


@given(vectors=retrieval(), at_once=st.integers(1, 40))
def test_three_ways_with_ties(vectors, at_once):
    """Against a loop: losing, the first of equals, winning; from vectors in blocks of any size, and from the table."""
    image_ID, text_TD, owner_T = vectors
    scores_IT = image_ID @ text_TD.T
    i2t_I3, t2i_T3 = count_ranks(image_ID, text_TD, owner_T, at_once)
    for mine, from_table in zip((i2t_I3, t2i_T3), ranks_from_table(scores_IT, owner_T), strict=True):
        assert mine.tolist() == from_table.tolist()
    for image, ranks in enumerate(i2t_I3):
        assert ranks.tolist() == slow(scores_IT[image], np.flatnonzero(owner_T == image))
    for text, ranks in enumerate(t2i_T3):
        assert ranks.tolist() == slow(scores_IT[:, text], owner_T[text : text + 1])


@given(vectors=retrieval(), at_once=st.integers(1, 40), count=st.integers(1, 9))
def test_first_candidates_are_those_of_a_sort(vectors, at_once, count):
    """Equals in the order of the file, whatever the size of the blocks; no more than there are."""
    image_ID, text_TD, owner_T = map(np.nan_to_num, vectors)
    scores_IT = image_ID @ text_TD.T
    blocks = metrics.product_blocks(image_ID, text_TD)
    ranks = metrics.rank_both_ways(blocks, len(image_ID), owner_T, count, at_once)
    expected_IK = np.argsort(-scores_IT, axis=1, kind="stable")[:, :count]
    assert ranks.first_IK.tolist() == expected_IK.tolist()
    assert ranks.score_IK.tolist() == np.take_along_axis(scores_IT, expected_IK, axis=1).tolist()


def slow(scores_C, correct):
    """How many others are above the best own one; so, and those equal to it; so, and those equal and before it."""
    scored = [number for number in correct if not np.isnan(scores_C[number])]
    if not scored:
        return [np.inf] * 3
    best = max(scored, key=lambda number: (scores_C[number], -number))
    wrong = [number for number in range(len(scores_C)) if number not in correct]
    above = sum(not scores_C[number] <= scores_C[best] for number in wrong)
    equal = [number for number in wrong if scores_C[number] == scores_C[best]]
    return [above + len(equal), above + sum(number < best for number in equal), above]


@pytest.mark.parametrize("images", [600, 1200])
def test_memory_is_that_of_a_block(images):
    """The table of 1,200 images and as many texts would take 5.8 MB."""
    vector_ND = np.random.default_rng(0).standard_normal((images, 4)).astype(np.float32)
    tracemalloc.start()
    count_ranks(vector_ND, vector_ND, np.arange(images), at_once=1 << 14)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000

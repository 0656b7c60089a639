"""Metrics on matrices that a person can check, ties and NaN, and against slow loops on drawn ones.

N items, I images, T texts, C classes.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from compclip.base.errors import UserError
from compclip.evaluate import metrics

NAN = math.nan
pytestmark = pytest.mark.filterwarnings("error")
coarse = st.integers(0, 4).map(lambda x: x / 4)  # few values, so that ties are common


def means(outcomes):
    return {name: float(np.mean(values)) for name, values in outcomes.items() if not name.endswith("tied")}


def recall_at(scores, owner, ks, ties="wrong"):
    """Recall outcomes of a whole table of scores."""
    blocks = metrics.table_blocks(np.asarray(scores))
    ranks = metrics.rank_both_ways(blocks, len(scores), np.asarray(owner))
    return metrics.recall_at_ranks(ranks.i2t_I3, ranks.t2i_T3, ks, ties)


def test_sugarcrepe_counts_a_tie_and_nan_as_wrong():
    outcomes = metrics.sugarcrepe_outcomes([0.9, 0.5, 0.2, NAN, 0.3], [0.1, 0.5, 0.4, 0.1, NAN])
    assert outcomes["accuracy"].tolist() == [1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "scores,expected",
    [
        ((0.9, 0.8, 0.7, 0.9, 0.5, 0.4), (1, 1)),
        ((0.9, 0.6, 0.7, 0.9, 0.5, 0.4), (0, 1)),  # p2 loses on the image
        ((0.6, 0.9, 0.7, 0.9, 0.5, 0.4), (0, 1)),  # p1 loses on the image
        ((0.9, 0.8, 0.7, 0.5, 0.6, 0.4), (1, 0)),  # p1 is nearer to n
        ((0.9, 0.8, 0.7, 0.5, 0.4, 0.6), (1, 0)),  # p2 is nearer to n
        ((0.9, 0.7, 0.7, 0.5, 0.5, 0.4), (0, 0)),  # ties
        ((0.9, NAN, 0.7, 0.9, NAN, 0.4), (0, 0)),
    ],
)
def test_sugarcrepe_pp(scores, expected):
    result = means(metrics.sugarcrepe_pp_outcomes(*([x] for x in scores)))
    assert (result["itt"], result["tot"]) == expected


# rows are captions, columns images
WINOGROUND = {
    "both": ([[0.9, 0.1], [0.2, 0.8]], (1, 1, 1)),
    "image 0 takes all: each caption's image does not win": ([[0.9, 0.5], [0.8, 0.6]], (1, 0, 0)),
    "caption 0 takes all: on image 1 its caption does not win": ([[0.9, 0.8], [0.5, 0.6]], (0, 1, 0)),
    "neither": ([[0.1, 0.9], [0.8, 0.2]], (0, 0, 0)),
    "tie of captions on image 0": ([[0.9, 0.1], [0.9, 0.95]], (0, 1, 0)),
    "tie of images for caption 0": ([[0.9, 0.9], [0.2, 0.95]], (1, 0, 0)),
    "tie of captions on image 1": ([[0.9, 0.8], [0.1, 0.8]], (0, 1, 0)),
    "tie of images for caption 1": ([[0.9, 0.1], [0.8, 0.8]], (1, 0, 0)),
    "not a number": ([[NAN, 0.1], [0.2, 0.8]], (0, 0, 0)),
}


@pytest.mark.parametrize("scores,expected", WINOGROUND.values(), ids=WINOGROUND)
def test_winoground(scores, expected):
    assert tuple(means(metrics.winoground_outcomes(np.array([scores]))).values()) == expected


def test_winoground_group_is_per_example():
    only_text, only_image = [[0.9, 0.5], [0.8, 0.6]], [[0.9, 0.8], [0.5, 0.6]]
    result = means(metrics.winoground_outcomes(np.array([only_text, only_image])))
    assert result == {"text": 0.5, "image": 0.5, "group": 0.0}


@pytest.mark.parametrize(
    "c,n,p,expected",  # original, augmented, brittle
    [
        (0.9, 0.1, 0.8, (1, 1, 0)),
        (0.9, 0.5, 0.1, (1, 0, 1)),
        (0.1, 0.5, 0.9, (0, 0, 1)),
        (0.2, 0.9, 0.1, (0, 0, 0)),
        (0.5, 0.5, 0.9, (0, 0, 0)),  # n is not strictly between
        (0.9, 0.5, 0.5, (1, 0, 0)),
        (0.9, 0.5, NAN, (1, 0, 1)),
        (0.9, NAN, 0.8, (0, 0, 1)),
    ],
)
def test_hard_positives(c, n, p, expected):
    result = means(metrics.hard_positives_outcomes([c], [n], [p]))
    assert (result["original"], result["augmented"], result["brittleness"], result["mean_score"]) == (*expected, c)


def test_hard_positives_at_chance():
    orders = np.array([(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])  # of c, n, p
    result = means(metrics.hard_positives_outcomes(*orders.T))
    assert result["original"] == 1 / 2 and result["augmented"] == pytest.approx(1 / 3)
    assert result["brittleness"] == pytest.approx(1 / 3)  # supplementary, C


def test_recall_both_ways_with_two_captions_of_an_image():
    scores = np.array([[0.9, 0.1, 0.5], [0.2, 0.7, 0.8]])  # texts 0 and 1 are of image 0, text 2 of image 1
    assert means(recall_at(scores, [0, 0, 1], (1, 2))) == {
        "i2t_r1": 1.0, "i2t_r2": 1.0, "t2i_r1": 2 / 3, "t2i_r2": 1.0,
    }  # fmt: skip


def test_recall_counts_ties_and_nan_against():
    outcomes = recall_at(np.array([[0.5, 0.5], [0.1, 0.5]]), [0, 1], (1, 2))
    assert outcomes["i2t_r1"].tolist() == [0, 1] and outcomes["i2t_r2"].tolist() == [1, 1]
    assert outcomes["t2i_r1"].tolist() == [1, 0]
    nan = recall_at(np.array([[NAN, 0.5], [0.1, 0.9]]), [0, 1], (1, 2))
    assert nan["i2t_r2"].tolist() == [0, 1] and nan["t2i_r2"].tolist() == [0, 1]
    rival = recall_at(np.array([[0.9, NAN], [0.1, 0.9]]), [0, 1], (1,))
    assert rival["i2t_r1"].tolist() == [0, 1] and rival["t2i_r1"].tolist() == [1, 0]


def test_own_captions_do_not_compete_with_each_other():
    scores = np.array([[0.9, 0.9, 0.1], [0.0, 0.0, 0.5]])
    assert means(recall_at(scores, [0, 0, 1], (1,)))["i2t_r1"] == 1.0


def test_recall_where_the_first_of_equals_is_ahead():
    """Images 0 and 1 tie for text 0, texts 0 and 1 for image 0: each time the first of the two is found."""
    scores = np.array([[0.5, 0.5, 0.1], [0.5, 0.2, 0.5]])
    wrong, first = (recall_at(scores, [0, 1, 1], (1,), ties) for ties in ("wrong", "first"))
    assert (wrong["i2t_r1"].tolist(), first["i2t_r1"].tolist()) == ([0, 0], [1, 0])  # image 1's own text is the second
    assert (wrong["t2i_r1"].tolist(), first["t2i_r1"].tolist()) == ([0, 0, 1], [1, 0, 1])
    for outcomes in (wrong, first):
        assert outcomes["i2t_tied"].tolist() == [1, 1] and outcomes["t2i_tied"].tolist() == [1, 0, 0]


def test_a_tie_that_decides_nothing_is_not_counted():
    """Third of three, tied with the second: among the first it is not, among three it is."""
    outcomes = recall_at(np.array([[0.1, 0.1, 0.5]] * 3), [0, 1, 2], (1,))
    assert outcomes["i2t_tied"].tolist() == [0, 0, 0]


PAIRED = {
    "sugarcrepe": (metrics.sugarcrepe_outcomes, 2), "sugarcrepe_pp": (metrics.sugarcrepe_pp_outcomes, 6),
    "hard_positives": (metrics.hard_positives_outcomes, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRED)
def test_pairs_without_equals_hang_on_no_tie(name):
    outcomes, arguments = PAIRED[name]
    distinct = np.arange(arguments * 4, dtype=float).reshape(arguments, 4)
    assert not metrics.tied_items(outcomes, *distinct).any()


def test_pairs_that_hang_on_a_tie():
    """Of the last of each an outcome would be the same if the tie were won; NaN is equal to nothing."""
    tied = metrics.tied_items(metrics.sugarcrepe_outcomes, [0.5, 0.5, NAN], [0.5, 0.4, NAN])
    assert tied.tolist() == [True, False, False]
    scores = np.array([[[0.9, 0.9], [0.2, 0.95]], [[0.1, 0.9], [0.1, 0.2]]])
    assert metrics.tied_items(metrics.winoground_outcomes, scores).tolist() == [True, False]
    brittle = [0.9, 0.5, 0.2, NAN], [0.5, 0.5, 0.9, 0.5], [0.5, 0.1, 0.2, 0.5]
    assert metrics.tied_items(metrics.hard_positives_outcomes, *brittle).tolist() == [True, True, False, False]
    outcomes = metrics.sugarcrepe_pp_outcomes
    assert metrics.tied_items(outcomes, [0.9], [0.7], [0.7], [0.9], [0.5], [0.5]).tolist() == [True]
    assert metrics.tied_items(outcomes, [0.6], [0.7], [0.7], [0.9], [0.5], [0.5]).tolist() == [False], "p1 loses anyway"


def slow_recall(scores_C: np.ndarray, is_own_C: np.ndarray, k: int, ties: str) -> bool:
    """By sorting: where a tie is wrong, own candidates are last among equals, else in their order."""
    last_C = is_own_C if ties == "wrong" else np.zeros_like(is_own_C)
    ranked = sorted(range(len(scores_C)), key=lambda c: (-scores_C[c], last_C[c]))
    return next(n for n, c in enumerate(ranked) if is_own_C[c]) < k


@given(st.data())
@pytest.mark.parametrize("ties", ["wrong", "first"])
def test_recall_is_what_sorting_gives(ties, data):
    images, k = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    owner = np.array(list(range(images)) + data.draw(st.lists(st.integers(0, images - 1), max_size=5)))
    scores = data.draw(hnp.arrays(float, (images, len(owner)), elements=coarse))
    outcomes = recall_at(scores, owner, (k,), ties)
    of_images = [slow_recall(row, owner == i, k, ties) for i, row in enumerate(scores)]
    of_texts = [slow_recall(column, np.arange(images) == owner[t], k, ties) for t, column in enumerate(scores.T)]
    assert outcomes[f"i2t_r{k}"].tolist() == of_images and outcomes[f"t2i_r{k}"].tolist() == of_texts


def test_classification_by_hand():
    scores = np.array([[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.3, 0.4], [0.1, 0.1, 0.8]])
    assert means(metrics.top_k_outcomes(scores, [0, 0, 2, 1], (1, 2, 3))) == {"top_1": 0.5, "top_2": 0.75, "top_3": 1.0}


def test_classification_counts_ties_and_nan_as_wrong():
    scores = np.array([[0.5, 0.5], [NAN, 0.1], [0.5, NAN]])
    outcomes = metrics.top_k_outcomes(scores, [0, 0, 0], (1, 2))
    assert outcomes["top_1"].tolist() == [0, 0, 0] and outcomes["top_2"].tolist() == [1, 0, 1]


def test_classification_where_the_first_of_equals_is_ahead():
    scores = np.array([[0.5, 0.5, 0.1], [0.5, 0.5, 0.1], [0.2, 0.5, 0.5]])
    outcomes = metrics.top_k_outcomes(scores, [0, 1, 2], (1, 2), "first")
    assert outcomes["top_1"].tolist() == [1, 0, 0] and outcomes["top_2"].tolist() == [1, 1, 1]
    assert outcomes["tied"].tolist() == [1, 1, 1]


def test_classes_that_are_one_do_not_compete():
    """Classes 0 and 2 are one: their ties are no ties, but both stand before class 1."""
    scores = np.array([[0.5, 0.4, 0.5], [0.5, 0.4, 0.5], [0.4, 0.4, 0.4]])
    outcomes = metrics.top_k_outcomes(scores, [2, 1, 0], (1, 2), same_C=np.array([0, 1, 0]))
    assert outcomes["top_1"].tolist() == [1, 0, 0] and outcomes["top_2"].tolist() == [1, 0, 1]
    assert outcomes["tied"].tolist() == [0, 0, 1]


def test_nothing_to_score_is_an_error():
    for name, (outcomes, arguments) in PAIRED.items():
        with pytest.raises(UserError, match=f"{name}: no scores"):
            outcomes(*[[]] * arguments)
    with pytest.raises(UserError, match="winoground: no scores"):
        metrics.winoground_outcomes(np.zeros((0, 2, 2)))
    with pytest.raises(UserError, match="top_k: no scores"):
        metrics.top_k_outcomes(np.zeros((0, 3)), [], (1,))

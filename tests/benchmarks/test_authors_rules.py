"""The new benchmarks against their authors' rules, said again in plain loops: equal on any scores, ties included."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from compclip.benchmarks import bivlc, vismin
from compclip.evaluate import metrics

SOME = st.integers(0, 3).map(float)  # so that ties are common


def scores(*shape: int):
    return arrays.arrays(np.float64, shape, elements=SOME)


@given(scores(5, 2, 2))
def test_bivlc_s_seven(scores_N22):
    """`evaluate_BiVLC`: caption c and picture i are C<c>_I<i>."""
    result = bivlc.outcomes(scores_N22)
    for n, ((c0_i0, c0_i1), (c1_i0, c1_i1)) in enumerate(scores_N22):
        image_pos, image_neg = c0_i0 > c1_i0, c1_i1 > c0_i1
        text_pos, text_neg = c0_i0 > c0_i1, c1_i1 > c1_i0
        i2t, t2i = image_pos and image_neg, text_pos and text_neg
        expected = {"i2t": i2t, "t2i": t2i, "group": i2t and t2i, "image_pos": image_pos, "image_neg": image_neg,
                    "text_pos": text_pos, "text_neg": text_neg}  # fmt: skip
        assert {name: bool(values[n]) for name, values in result.items()} == expected


@given(scores(2, 2))
def test_mmvp_s_accuracy_is_the_image_score(scores_22):
    """A statement's softmax over both pictures is above a half for its own: for the second picture also in a tie."""
    (s0_i0, s0_i1), (s1_i0, s1_i1) = scores_22
    share = [np.exp(a) / (np.exp(a) + np.exp(b)) for a, b in ((s0_i0, s0_i1), (s1_i0, s1_i1))]
    right = share[0] > 0.5 and not share[1] > 0.5
    ours = bool(metrics.winoground_outcomes(scores_22[None])["image"][0])
    assert ours == (right and s1_i1 != s1_i0)


@given(scores(2, 2))
def test_vismin_s_metric(scores_22):
    """`compute_contrastive_accuracy` of the present release: `T<t>_I<i>` are the scores of the rows as they stand."""
    ours = metrics.winoground_outcomes(scores_22[None])
    for name, outcome in (("Text", ours["text"]), ("Image", ours["image"])):
        relations = (relation.split(" > ") for relation in vismin.STRAIGHT[name].split(" & "))
        values = [[scores_22[int(cell[1]), int(cell[4])] for cell in pair] for pair in relations]
        assert bool(outcome[0]) == all(a > b for a, b in values)

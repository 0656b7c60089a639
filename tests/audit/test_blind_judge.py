"""The judge: a planted artefact is recognised in pictures that it was not trained on, a balanced list is not."""

import numpy as np
import pytest

from compclip.audit import rule_audit
from compclip.text.blind_language import FOLDS, FoldedLanguage

WORDS = ("red", "blue", "small", "old")
THINGS = ("dog", "cat", "kite", "cup", "tree")


def write_captions(count):
    rng = np.random.default_rng(0)
    draw = [(rng.choice(WORDS), rng.choice(THINGS), rng.choice(WORDS), rng.choice(THINGS)) for _ in range(count)]
    return [f"a {a} {b} and a {c} {d}" for a, b, c, d in draw]


def judge(pairs):
    folds = [i % FOLDS for i in range(len(pairs))]
    return rule_audit.share_recognised(pairs, folds, FoldedLanguage([caption for caption, _ in pairs], folds))


def test_a_planted_artefact_is_recognised():
    """Longer texts, and words in another order, at equal length and equal words."""
    captions = write_captions(200)
    assert judge([(caption, f"{caption} there") for caption in captions]) == 1.0
    assert judge([(caption, " ".join(reversed(caption.split()))) for caption in captions]) > 0.95


def test_a_balanced_list_is_not():
    """Further captions by the same hand: the judge is as often right as a coin, whatever it was trained on."""
    captions = write_captions(400)
    assert abs(judge(list(zip(captions[:200], captions[200:], strict=True))) - 0.5) < 0.11  # three deviations


def test_counts_are_of_other_folds_alone():
    """A word of one picture's caption is unknown to the models that judge that picture."""
    language = FoldedLanguage(["a dog", "a cat"], [0, 1])
    assert language.models[0][2].words["dog"] == 0 and language.models[1][2].words["dog"] == 1


def test_the_judge_is_a_maximum():
    """The gradient of the penalised log likelihood, worked out by loops, is zero."""
    gap_NF = np.random.default_rng(1).normal(size=(30, 3)) + 0.3
    weight_F = rule_audit.fit_judge(gap_NF)
    sums = [sum(row[i] / (1 + np.exp(row @ weight_F)) for row in gap_NF) for i in range(3)]
    gradient = [sums[i] - rule_audit.RIDGE * weight_F[i] for i in range(3)]
    assert gradient == pytest.approx([0, 0, 0], abs=1e-9)

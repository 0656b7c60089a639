"""Tell a text from its caption without the picture: by single blind scores, and by a judge that is trained on them.

N pairs of a caption and a text made of it, F features.

Pairs are in folds by picture. The scores of a pair come from word counts of the other folds' captions alone, and the
judge that decides a pair was trained on the pairs of the other folds: logistic regression on the differences of the
features, without an intercept. Chance is one half; a tie counts half. A text that is another picture's own caption
is among the counts, and so too likely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compclip.text.blind_language import BIGRAM_COLUMN, FOLDS, FREQUENCY_COLUMN, LENGTH_COLUMN, FoldedLanguage

RIDGE = 1.0  # weight of the squares of the judge's weights, of standardised features
STEPS = 25  # of Newton's method; it converges in less than ten


@dataclass(frozen=True)
class BlindShares:
    """Shares of pairs in which the caption is preferred to the text: by each score, and by the judge (`recognised`)."""

    length: float
    frequency: float
    bigram: float
    recognised: float


def judge_pairs(pairs: Sequence[tuple[str, str]], fold_of: Sequence[int], language: FoldedLanguage) -> BlindShares:
    """Return how often captions are told from the texts, which are the second of each pair."""
    features = [[language.features(text, fold) for text in pair] for pair, fold in zip(pairs, fold_of, strict=True)]
    feature_N2F = np.array(features)
    gap_NF = feature_N2F[:, 0] - feature_N2F[:, 1]
    length, frequency, bigram = (
        count_preferred(gap_NF[:, i]) for i in (LENGTH_COLUMN, FREQUENCY_COLUMN, BIGRAM_COLUMN)
    )
    return BlindShares(length, frequency, bigram, count_preferred(cross_judge(gap_NF, np.array(fold_of))))


def count_preferred(margin_N: np.ndarray) -> float:
    """Return the share of pairs with a positive margin, ties counted half."""
    return float(((margin_N > 0) + 0.5 * (margin_N == 0)).mean())


def cross_judge(gap_NF: np.ndarray, fold_N: np.ndarray) -> np.ndarray:
    """Return each pair's margin by the judge that was trained on the other folds; 0 where those are empty."""
    margin_N = np.zeros(len(gap_NF))
    for fold in range(FOLDS):
        train_N = fold_N != fold
        test_N = fold_N == fold
        if train_N.any() and test_N.any():
            scale_F = np.sqrt((gap_NF[train_N] ** 2).mean(axis=0))
            scale_F[scale_F == 0] = 1.0
            weight_F = fit_judge(gap_NF[train_N] / scale_F)
            margin_N[test_N] = np.round(gap_NF[test_N] / scale_F @ weight_F, 9)
    return margin_N


def fit_judge(gap_NF: np.ndarray) -> np.ndarray:
    """Return the weights that maximise the log likelihood of the captions, less the ridge, by Newton's method."""
    weight_F = np.zeros(gap_NF.shape[1])
    for _ in range(STEPS):
        wrong_N = 1 / (1 + np.exp(np.clip(gap_NF @ weight_F, -50, 50)))
        gradient_F = gap_NF.T @ wrong_N - RIDGE * weight_F
        spread_N = wrong_N * (1 - wrong_N)
        hessian_FF = (gap_NF * spread_N[:, None]).T @ gap_NF + RIDGE * np.eye(len(weight_F))
        weight_F += np.linalg.solve(hessian_FF, gradient_F)
    return weight_F


def most_common(words: Counter[str], limit: int = 10) -> list[str]:
    """Return the most frequent words, equals in alphabetical order."""
    return [word for word, _ in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:limit]]

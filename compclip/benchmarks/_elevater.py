"""ELEVATER's metrics that are not top-1 (Li et al., NeurIPS 2022, arXiv:2204.08790), as its toolkit computes them.

N pictures, C classes.

Both rank pictures by the softmax over the classes of 100 times the cosines. `mean_per_class` stands in `zeroshot`.
"""

from __future__ import annotations

import numpy as np

TEMPERATURE = 100.0
POINTS = np.linspace(1, 0, 11)  # of recall


def probabilities(scores_NC: np.ndarray) -> np.ndarray:
    """Compute the softmax over the classes, float64 [N, C]."""
    logit_NC = TEMPERATURE * scores_NC.astype(np.float64)
    power_NC = np.exp(logit_NC - logit_NC.max(1, keepdims=True))
    return power_NC / power_NC.sum(1, keepdims=True)


def precision_11(score_N: np.ndarray, shown_N: np.ndarray) -> float:
    """Compute the 11-point interpolated average precision of one class; `shown_N` marks its pictures, one at least.

    At each recall the best precision from there on; equal scores are one threshold. At recall 0 it is 1, as in
    vision_evaluation, which ELEVATER uses: VOC's own program takes the best precision there is.
    """
    order_N = np.argsort(-score_N, kind="stable")
    last_N = np.append(np.diff(score_N[order_N]) != 0, True)  # of equal scores
    hit_T = np.cumsum(shown_N[order_N])[last_N]
    recall_T, precision_T = hit_T / shown_N.sum(), hit_T / (np.flatnonzero(last_N) + 1)
    return float(np.mean([1.0, *(precision_T[recall_T >= point].max() for point in POINTS[:-1])]))


def above_negatives(positive_P: np.ndarray, negative_N: np.ndarray) -> np.ndarray:
    """Return for each positive the share of negatives below it, equal ones half; the mean is the area under the ROC."""
    ordered_N = np.sort(negative_N)
    below_P, not_above_P = (np.searchsorted(ordered_N, positive_P, side=side) for side in ("left", "right"))
    return (below_P + not_above_P) / (2 * len(negative_N))

"""What benchmarks count, as pure functions of score arrays: right or wrong per item.

N items, I images, T texts, C classes or candidates, Q queries.

A tie is wrong, and so is a comparison with NaN. Each function gives one number an item, 1.0 for right, by metric; the
metric is their mean. Empty input raises UserError.

Pairs are compared strictly by all their authors, rankings are not. With `ties` "first" the first of equals is ahead, as
argmax has it; CLIP_benchmark's topk takes any of them, so that its numbers cannot be repeated where scores are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from compclip.base.errors import UserError
from compclip.config.sections import FIRST, WRONG

PerItem = dict[str, np.ndarray]  # outcomes by metric
Beats = Callable[[np.ndarray, np.ndarray], np.ndarray]


def tied_items(outcomes: Callable[..., PerItem], *scores: np.ndarray) -> np.ndarray:
    """Which items hang on equal scores: an outcome of theirs is another if ties are won. Shape N, bool.

    `outcomes` is one of the functions below that take `beats`.
    """
    strict, lenient = outcomes(*scores), outcomes(*scores, beats=np.greater_equal)
    changed = [(strict[name] != lenient[name]) & ~np.isnan(strict[name]) for name in strict]
    return np.any(changed, axis=0)


def sugarcrepe_outcomes(positive_N: np.ndarray, negative_N: np.ndarray, beats: Beats = np.greater) -> PerItem:
    """`accuracy`: s(I, caption) > s(I, negative)."""
    positive_N, negative_N = _check_scores("sugarcrepe", positive_N, negative_N)
    return _numbers(accuracy=beats(positive_N, negative_N))


def sugarcrepe_pp_outcomes(
    image_p1_N: np.ndarray,
    image_p2_N: np.ndarray,
    image_n_N: np.ndarray,
    p1_p2_N: np.ndarray,
    p1_n_N: np.ndarray,
    p2_n_N: np.ndarray,
    *,
    beats: Beats = np.greater,
) -> PerItem:
    """`itt`: both captions beat the negative on the image; `tot`: the captions are nearer each other than it."""
    image_p1_N, image_p2_N, image_n_N, p1_p2_N, p1_n_N, p2_n_N = _check_scores(
        "sugarcrepe_pp", image_p1_N, image_p2_N, image_n_N, p1_p2_N, p1_n_N, p2_n_N
    )
    return _numbers(
        itt=beats(image_p1_N, image_n_N) & beats(image_p2_N, image_n_N),
        tot=beats(p1_p2_N, p1_n_N) & beats(p1_p2_N, p2_n_N),
    )


def winoground_outcomes(scores_N22: np.ndarray, beats: Beats = np.greater) -> PerItem:
    """`text`, `image`, `group` from scores [example, caption, image]; caption c belongs to image c.

    text: on each image its caption wins. image: for each caption its image wins. group: both.
    """
    (scores_N22,) = _check_scores("winoground", scores_N22)
    (c0_i0, c0_i1), (c1_i0, c1_i1) = np.moveaxis(scores_N22, 0, -1)
    text_N = beats(c0_i0, c1_i0) & beats(c1_i1, c0_i1)
    image_N = beats(c0_i0, c0_i1) & beats(c1_i1, c1_i0)
    return _numbers(text=text_N, image=image_N, group=text_N & image_N)


def hard_positives_outcomes(
    original_N: np.ndarray, negative_N: np.ndarray, positive_N: np.ndarray, *, beats: Beats = np.greater
) -> PerItem:
    """REPLACE and SWAP from the scores of caption c, hard negative n and hard positive p on the image.

    `original`: c > n. `augmented`: c > n and p > n. `brittleness` (lower is better): n strictly between c and p, or a
    score that is NaN. `mean_score`: c itself, not an outcome in [0, 1].
    """
    c, n, p = _check_scores("hard_positives", original_N, negative_N, positive_N)
    original, reworded = beats(c, n), beats(p, n)
    between = (original & beats(n, p)) | (reworded & beats(n, c))
    return _numbers(
        original=original, augmented=original & reworded, brittleness=between | np.isnan(c + n + p), mean_score=c
    )


def recall_at_ranks(i2t_I3: np.ndarray, t2i_T3: np.ndarray, ks: Iterable[int], ties: str = WRONG) -> PerItem:
    """`i2t_r<k>` per image and `t2i_r<k>` per text; `i2t_tied` and `t2i_tied` where one of them hangs on equal scores.

    The ranks are those of `embeddings.count_ranks`. i2t: one of the image's own texts is among the k best, and these do
    not compete with each other. t2i: the text's image is among the k best.
    """
    i2t, t2i = map(Rank._make, i2t_I3), map(Rank._make, t2i_T3)
    return outcomes_within_k("i2t_", i2t, ks, ties, "r") | outcomes_within_k("t2i_", t2i, ks, ties, "r")


def top_k_outcomes(
    scores_NC: np.ndarray, label_N: np.ndarray, ks: Iterable[int], ties: str = WRONG, same_C: np.ndarray | None = None
) -> PerItem:
    """`top_<k>` per item: its class is among the k best; `tied` where one of them hangs on equal scores.

    Classes of one number in `same_C` are one: they do not compete with each other.
    """
    scores_NC, label_N = _check_scores("top_k", scores_NC, label_N)
    same_C = np.arange(scores_NC.shape[1]) if same_C is None else same_C
    classes_of = {label: np.flatnonzero(same_C == same_C[label]) for label in np.unique(label_N)}
    ranks = [rank(row_C, classes_of[label]) for row_C, label in zip(scores_NC, label_N, strict=True)]
    return outcomes_within_k("", ranks, ks, ties, "top_")


def _check_scores(benchmark: str, *arrays: np.ndarray) -> list[np.ndarray]:
    """Return scores as arrays. Raises UserError where there are none."""
    scores = [np.asarray(array) for array in arrays]
    if not all(map(len, scores)):
        raise UserError(f"{benchmark}: no scores; the benchmark has no scored record")
    return scores


def _numbers(**outcomes: np.ndarray) -> PerItem:
    return {name: values.astype(np.float64) for name, values in outcomes.items()}


class Rank(NamedTuple):
    """How many candidates stand before a query's best own one: where it loses ties, the first of equals wins, it wins.

    Infinite where all own scores are NaN.
    """

    losing: float
    first: float
    winning: float


def rank(scores_C: np.ndarray, match_indices: np.ndarray) -> Rank:
    """The rank of the best of the candidates numbered `own`, in rising order; these do not compete with each other."""
    best = np.fmax.reduce(scores_C[match_indices])
    if np.isnan(best):
        return Rank(np.inf, np.inf, np.inf)
    above_C, equal_C = ~(scores_C <= best), scores_C == best
    ahead = match_indices[equal_C[match_indices]][0]
    above_C[match_indices] = equal_C[match_indices] = False
    above = int(np.count_nonzero(above_C))
    return Rank(above + int(np.count_nonzero(equal_C)), above + int(np.count_nonzero(equal_C[:ahead])), above)


def outcomes_within_k(way: str, ranks: Iterable[Rank], ks: Iterable[int], ties: str, name: str) -> PerItem:
    """`<way><name><k>`: whether each rank is among the k best; `<way>tied`: whether that hangs on ties for some k."""
    ks = sorted(set(ks))
    losing_Q, first_Q, winning_Q = np.array(list(ranks)).T
    outcomes = {f"{way}{name}{k}": (first_Q if ties == FIRST else losing_Q) < k for k in ks}
    outcomes[f"{way}tied"] = np.any([(losing_Q < k) != (winning_Q < k) for k in ks], axis=0)
    return _numbers(**outcomes)

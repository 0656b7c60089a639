"""What benchmarks count, as pure functions of score arrays: right or wrong per item.

N items, I images, T texts, C classes or candidates, U different ones, Q queries, B queries of a block, P pairs of a
query and a candidate of its own, D joint dim.

A tie is wrong, and so is a comparison with NaN. Each function gives one number an item, 1.0 for right, by metric; the
metric is their mean. Empty input raises UserError.

Pairs are compared strictly by all their authors, rankings are not. With `ties` "first" the first of equals is ahead, as
argmax has it; CLIP_benchmark's topk takes any of them, so that its numbers cannot be repeated where scores are equal.
Ranks are counted block by block, so that memory does not grow with queries x candidates. What is compared stands in one
matrix product, of every different candidate once: equal candidates tie exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from compclip.base.errors import UserError
from compclip.config.sections import FIRST, WRONG

AT_ONCE = 1 << 26  # scores that are held at once, of 4 bytes each
PerItem = dict[str, np.ndarray]  # outcomes by metric
BlockScores = Callable[[slice], np.ndarray]  # [B, C] of some consecutive queries with all candidates
Beats = Callable[[np.ndarray, np.ndarray], np.ndarray]


def tied_items(outcomes: Callable[..., PerItem], *scores: np.ndarray) -> np.ndarray:
    """Return which items depend on equal scores: an outcome of theirs is another if ties are won. Shape N, bool.

    `outcomes` is one of the functions below that take `beats`.
    """
    strict = outcomes(*scores)
    lenient = outcomes(*scores, beats=np.greater_equal)
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
    original = beats(c, n)
    reworded = beats(p, n)
    between = (original & beats(n, p)) | (reworded & beats(n, c))
    return _numbers(
        original=original, augmented=original & reworded, brittleness=between | np.isnan(c + n + p), mean_score=c
    )


def recall_at_ranks(i2t_I3: np.ndarray, t2i_T3: np.ndarray, ks: Iterable[int], ties: str = WRONG) -> PerItem:
    """`i2t_r<k>` per image and `t2i_r<k>` per text; `i2t_tied` and `t2i_tied` where equal scores decide.

    The ranks are those of `Ranks`. i2t: one of the image's own texts is among the k best, which do not compete
    with each other. t2i: the text's image is among the k best.
    """
    return _outcomes_within_k("i2t_", i2t_I3, ks, ties, "r") | _outcomes_within_k("t2i_", t2i_T3, ks, ties, "r")


def top_k_outcomes(
    scores_NC: np.ndarray, label_N: np.ndarray, ks: Iterable[int], ties: str = WRONG, same_C: np.ndarray | None = None
) -> PerItem:
    """`top_<k>` per item: its class is among the k best; `tied` where one of them depends on equal scores.

    Classes of one number in `same_C` are one: they do not compete with each other.
    """
    scores_NC, label_N = _check_scores("top_k", scores_NC, label_N)
    same_C = np.arange(scores_NC.shape[1]) if same_C is None else same_C
    item_P, class_P = np.nonzero(same_C == same_C[label_N][:, None])
    return _outcomes_within_k("", _rank_block(scores_NC, item_P, class_P), ks, ties, "top_")


def _check_scores(benchmark: str, *arrays: np.ndarray) -> list[np.ndarray]:
    """Return scores as arrays. Raises UserError where there are none."""
    scores = [np.asarray(array) for array in arrays]
    if not all(map(len, scores)):
        raise UserError(f"{benchmark}: no scores; the benchmark has no scored record")
    return scores


def _numbers(**outcomes: np.ndarray) -> PerItem:
    return {name: values.astype(np.float64) for name, values in outcomes.items()}


def _outcomes_within_k(way: str, rank_Q3: np.ndarray, ks: Iterable[int], ties: str, name: str) -> PerItem:
    """`<way><name><k>`: whether each rank is among the k best; `<way>tied`: whether that depends on ties for some k."""
    ks = sorted(set(ks))
    losing_Q, first_Q, winning_Q = rank_Q3.T
    outcomes = {f"{way}{name}{k}": (first_Q if ties == FIRST else losing_Q) < k for k in ks}
    outcomes[f"{way}tied"] = np.any([(losing_Q < k) != (winning_Q < k) for k in ks], axis=0)
    return _numbers(**outcomes)


# --- ranks ----------------------------------------------------------------------------------------------------


class Ranks(NamedTuple):
    """Candidates before each image's best own text [I, 3], before each text's own image [T, 3], and the first texts.

    Three numbers: where the own one loses ties, where the first of equals wins, where it wins them. All are infinite
    where no own score is a number. An image's own texts do not compete with each other. `first_IK` numbers the texts
    with the highest scores, the first of equals first, and `score_IK` has these.
    """

    i2t_I3: np.ndarray
    t2i_T3: np.ndarray
    first_IK: np.ndarray
    score_IK: np.ndarray


def rank_both_ways(
    blocks: tuple[BlockScores, BlockScores], images: int, owner_T: np.ndarray, first: int = 0, at_once: int = AT_ONCE
) -> Ranks:
    """Rank by the scores of blocks of images, and of texts; `owner_T` names the texts' images.

    `first`: how many of the first texts are listed for each image.
    """
    of_images, of_texts = blocks
    texts = len(owner_T)
    order_T = np.argsort(owner_T, kind="stable")
    size = max(1, at_once // max(1, texts))
    ranked = _rank_matches(of_images, owner_T[order_T], order_T, images, size, min(first, texts))
    t2i_T3, *_ = _rank_matches(of_texts, np.arange(texts), owner_T, texts, max(1, at_once // max(1, images)), 0)
    return Ranks(ranked[0], t2i_T3, *ranked[1:])


def product_blocks(image_ID: np.ndarray, text_TD: np.ndarray) -> tuple[BlockScores, BlockScores]:
    """Return the products of blocks of images with all texts, and of texts with all images."""
    return _products(image_ID, text_TD), _products(text_TD, image_ID)


def table_blocks(scores_IT: np.ndarray) -> tuple[BlockScores, BlockScores]:
    """Return the same of a whole table of scores."""
    return scores_IT.__getitem__, scores_IT.T.__getitem__


def _products(query_QD: np.ndarray, candidate_CD: np.ndarray) -> BlockScores:
    """Return the products with all candidates, each different one multiplied once."""
    rows_C = np.ascontiguousarray(candidate_CD).view(np.dtype((np.void, candidate_CD.shape[1] * candidate_CD.itemsize)))
    _, first_U, number_C = np.unique(rows_C, return_index=True, return_inverse=True)
    candidate_UD = candidate_CD[first_U]
    return lambda block: (query_QD[block] @ candidate_UD.T)[:, number_C.reshape(-1)]


def _rank_matches(
    scores: BlockScores, query_P: np.ndarray, own_P: np.ndarray, queries: int, size: int, first: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[Q, 3], and the first candidates [Q, K] with their scores, of pairs in the order of their queries."""
    rank_Q3 = np.zeros((queries, 3))
    first_QK = np.zeros((queries, first), np.int64)
    score_QK = np.zeros((queries, first))
    for start in range(0, queries, size):
        block = slice(start, start + size)
        scores_BC = scores(block)
        low, high = np.searchsorted(query_P, (start, start + len(scores_BC)))
        rank_Q3[block] = _rank_block(scores_BC, query_P[low:high] - start, own_P[low:high])
        first_QK[block] = _list_first(scores_BC, first)
        score_QK[block] = np.take_along_axis(scores_BC, first_QK[block], axis=1)
    return rank_Q3, first_QK, score_QK


def _list_first(scores_BC: np.ndarray, count: int) -> np.ndarray:
    """[B, K], the candidates with the highest scores of one block."""
    first_BK = np.zeros((len(scores_BC), count), np.int64)
    remaining_BC = scores_BC.copy() if count else scores_BC
    for k in range(count):
        first_BK[:, k] = remaining_BC.argmax(axis=1)
        remaining_BC[np.arange(len(scores_BC)), first_BK[:, k]] = -np.inf
    return first_BK


def _rank_block(scores_BC: np.ndarray, query_P: np.ndarray, own_P: np.ndarray) -> np.ndarray:
    """[B, 3], of the scores of one block."""
    best_B = np.full(len(scores_BC), np.nan, scores_BC.dtype)
    np.fmax.at(best_B, query_P, scores_BC[query_P, own_P])
    equal_BC = scores_BC == best_B[:, None]
    above_BC = ~(scores_BC <= best_B[:, None])
    ahead_B = np.full(len(best_B), scores_BC.shape[1])
    best_P = equal_BC[query_P, own_P]
    np.minimum.at(ahead_B, query_P[best_P], own_P[best_P])
    above_BC[query_P, own_P] = equal_BC[query_P, own_P] = False
    above_B = above_BC.sum(1)
    equal_B = equal_BC.sum(1)
    equal_BC &= np.arange(scores_BC.shape[1]) < ahead_B[:, None]
    rank_B3 = np.stack([above_B + equal_B, above_B + equal_BC.sum(1), above_B], axis=1).astype(np.float64)
    rank_B3[np.isnan(best_B)] = np.inf
    return rank_B3

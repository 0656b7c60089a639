"""The vectors of images and texts, looked up by path and by text, and ranks of candidates by them.

N records, I images, T texts, P pairs, D joint dim. Of ranks: Q queries, C candidates, U different ones, B queries of a
block, P pairs of a query and a candidate of its own.

Ranks are counted block by block, so that memory does not grow with queries x candidates. What is compared stands in one
matrix product, of every different candidate once: equal candidates tie exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from compclip.config.sections import WRONG

Pair = tuple[str, str]  # the reference of a picture, a text
Scores = Callable[[Sequence[Pair]], np.ndarray]  # of different pairs, [P]
AT_ONCE = 1 << 26  # scores that are held at once, of 4 bytes each
BlockScores = Callable[[slice], np.ndarray]  # [B, C] of some consecutive queries with all candidates


@dataclass(frozen=True)
class Embeddings:
    """Unit vectors of images and texts; `failed` gives the reason for each image that has none.

    `ties` says what becomes of equal scores: wrong, or the first candidate's where the authors of a benchmark do so.
    """

    image_ID: np.ndarray
    text_TD: np.ndarray
    image_row: dict[str, int]
    text_row: dict[str, int]
    failed: dict[str, str]
    ties: str = WRONG

    def has(self, refs: Iterable[str]) -> bool:
        """Whether every one of the images was read."""
        return all(ref in self.image_row for ref in refs)

    def images(self, refs: Sequence[str]) -> np.ndarray:
        """Rows [N, D] of images, float64; KeyError for one that could not be read."""
        return self.image_ID[_rows(refs, self.image_row)].astype(np.float64)

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Rows [N, D] of texts, float64."""
        return self.text_TD[_rows(texts, self.text_row)].astype(np.float64)

    def matches(self, refs: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """Cosine of image n with text n, shape N."""
        return np.einsum("nd,nd->n", self.images(refs), self.texts(texts))

    def similarities(self, texts: Sequence[str], other_texts: Sequence[str]) -> np.ndarray:
        """Cosine of text n with other text n, shape N."""
        return np.einsum("nd,nd->n", self.texts(texts), self.texts(other_texts))

    def ranks(self, refs: Sequence[str], texts: Sequence[str], owner_T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many texts stand before each image's best own one, and images before each text's own (`count_ranks`)."""
        image_ID, text_TD = self.image_ID[_rows(refs, self.image_row)], self.text_TD[_rows(texts, self.text_row)]
        return count_ranks(image_ID, text_TD, owner_T)

    def table(self, refs: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """Cosines of every image with every text, float32 [len(refs), len(texts)].

        Computed once per different image and text: a matrix product may round equal columns differently, which would
        turn a tie into a win.
        """
        image_U, image_I = np.unique(_rows(refs, self.image_row), return_inverse=True)
        text_U, text_T = np.unique(_rows(texts, self.text_row), return_inverse=True)
        return (self.image_ID[image_U] @ self.text_TD[text_U].T)[image_I][:, text_T]


@dataclass(frozen=True)
class Paired(Embeddings):
    """Scores of pairs where a benchmark looks for cosines; each different pair is asked for once and kept."""

    ask: Scores = field(kw_only=True)
    score_of: dict[Pair, float] = field(default_factory=dict, kw_only=True)

    def matches(self, refs: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """The score of image n with text n, shape N."""
        pairs = list(zip(refs, texts, strict=True))
        if unscored := [pair for pair in dict.fromkeys(pairs) if pair not in self.score_of]:
            self.score_of.update(zip(unscored, self.ask(unscored).tolist(), strict=True))
        return np.array([self.score_of[pair] for pair in pairs])

    def table(self, refs: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """The score of every image with every text, float32 [len(refs), len(texts)]: as many pairs."""
        rows = self.matches([ref for ref in refs for _ in texts], list(texts) * len(refs))
        return rows.reshape(len(refs), len(texts)).astype(np.float32)

    def ranks(self, refs: Sequence[str], texts: Sequence[str], owner_T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As those of vectors, from the whole table."""
        return ranks_from_table(self.table(refs, texts), owner_T)


def _rows(keys: Sequence[str], row: dict[str, int]) -> np.ndarray:
    return np.array([row[key] for key in keys], dtype=np.int64)


# --- ranks ----------------------------------------------------------------------------------------------------


def count_ranks(
    image_ID: np.ndarray, text_TD: np.ndarray, owner_T: np.ndarray, at_once: int = AT_ONCE
) -> tuple[np.ndarray, np.ndarray]:
    """How many candidates stand before each image's best own text [I, 3], and before each text's own image [T, 3].

    Three numbers: where the own one loses ties, where the first of equals wins, where it wins them. All are infinite
    where no own score is a number. An image's own texts do not compete with each other. `owner_T` names their images.
    """
    return _ranks_both_ways(_products(image_ID, text_TD), _products(text_TD, image_ID), len(image_ID), owner_T, at_once)


def ranks_from_table(scores_IT: np.ndarray, owner_T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of scores that are there as a whole."""
    images, texts = scores_IT.shape
    at_once = max(AT_ONCE, images * texts)
    return _ranks_both_ways(lambda part: scores_IT[part], lambda part: scores_IT.T[part], images, owner_T, at_once)


def _products(query_QD: np.ndarray, candidate_CD: np.ndarray) -> BlockScores:
    candidate_UD, different_C = _unique_vectors(candidate_CD)
    return lambda part: (query_QD[part] @ candidate_UD.T)[:, different_C]


def _ranks_both_ways(
    of_images: BlockScores, of_texts: BlockScores, images: int, owner_T: np.ndarray, at_once: int
) -> tuple[np.ndarray, np.ndarray]:
    order_T = np.argsort(owner_T, kind="stable")
    i2t_I3 = _all_ranks(of_images, owner_T[order_T], order_T, images, max(1, at_once // max(1, len(owner_T))))
    text_T = np.arange(len(owner_T))
    return i2t_I3, _all_ranks(of_texts, text_T, owner_T, len(owner_T), max(1, at_once // max(1, images)))


def _unique_vectors(vector_ND: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different vectors [U, D], and which of them each one is."""
    rows_N = np.ascontiguousarray(vector_ND).view(np.dtype((np.void, vector_ND.shape[1] * vector_ND.itemsize)))
    _, first_U, number_N = np.unique(rows_N, return_index=True, return_inverse=True)
    return vector_ND[first_U], number_N.reshape(-1)


def _all_ranks(scores: BlockScores, query_P: np.ndarray, own_P: np.ndarray, queries: int, size: int) -> np.ndarray:
    """[Q, 3], of pairs in the order of their queries."""
    block_ranks = [np.zeros((0, 3))]
    for start in range(0, queries, size):
        scores_BC = scores(slice(start, start + size))
        low, high = np.searchsorted(query_P, (start, start + len(scores_BC)))
        block_ranks.append(_block_ranks(scores_BC, query_P[low:high] - start, own_P[low:high]))
    return np.concatenate(block_ranks)


def _block_ranks(scores_BC: np.ndarray, query_P: np.ndarray, own_P: np.ndarray) -> np.ndarray:
    """[B, 3], of the scores of one block."""
    best_B = np.full(len(scores_BC), np.nan, scores_BC.dtype)
    np.fmax.at(best_B, query_P, scores_BC[query_P, own_P])
    equal_BC = scores_BC == best_B[:, None]
    above_BC = ~(scores_BC <= best_B[:, None])
    ahead_B = np.full(len(best_B), scores_BC.shape[1])
    best_P = equal_BC[query_P, own_P]
    np.minimum.at(ahead_B, query_P[best_P], own_P[best_P])
    above_BC[query_P, own_P] = equal_BC[query_P, own_P] = False
    above_B, equal_B = above_BC.sum(1), equal_BC.sum(1)
    equal_BC &= np.arange(scores_BC.shape[1]) < ahead_B[:, None]
    rank_B3 = np.stack([above_B + equal_B, above_B + equal_BC.sum(1), above_B], axis=1).astype(np.float64)
    rank_B3[np.isnan(best_B)] = np.inf
    return rank_B3

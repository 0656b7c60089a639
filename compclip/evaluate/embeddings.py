"""The vectors of images and texts, looked up by path and by text.

N records, I images, T texts, P pairs, D joint dim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from compclip.base.errors import UserError
from compclip.config.sections import WRONG
from compclip.evaluate import metrics

T = TypeVar("T")
Pair = tuple[str, str]  # the reference of a picture, a text
Scores = Callable[[Sequence[Pair]], np.ndarray]  # of different pairs, [P]


class NoVectorsError(UserError):
    """A benchmark asks for the vectors of pictures or texts where there are scores alone."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"this benchmark asks for vectors of {what}, and here are scores of pictures with texts alone; "
            "let it compare by `matches`, `table` or `ranks` of Embeddings, or leave it out of the benchmarks"
        )


@dataclass(frozen=True)
class Embeddings:
    """Unit vectors of images and texts; `failed` gives the reason for each image that has none.

    `ties` says what becomes of equal scores: wrong, or the first candidate's where the authors of a benchmark do so.
    `long_TD` are texts as long captions, by a head that maps these (`model.heads.LongTexts`); None: as all others.
    """

    image_ID: np.ndarray
    text_TD: np.ndarray
    image_row: dict[str, int]
    text_row: dict[str, int]
    failed: dict[str, str]
    ties: str = WRONG
    long_TD: np.ndarray | None = None

    def as_long_texts(self) -> Embeddings:
        """Return the same pictures, and texts as long captions."""
        return self if self.long_TD is None else replace(self, text_TD=self.long_TD)

    def has(self, refs: Iterable[str]) -> bool:
        """Return whether every one of the images was read."""
        return self.image_row.keys() >= set(refs)

    def images(self, refs: Sequence[str]) -> np.ndarray:
        """Return the rows [N, D] of images, float64; KeyError for one that could not be read."""
        return self.image_ID[_rows(refs, self.image_row)].astype(np.float64)

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Return the rows [N, D] of texts, float64."""
        return self.text_TD[_rows(texts, self.text_row)].astype(np.float64)

    def matches(self, refs: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """Return the cosine of image n with text n, shape N."""
        return np.einsum("nd,nd->n", self.images(refs), self.texts(texts))

    def against(self, refs: Sequence[str], text_TD: np.ndarray) -> np.ndarray:
        """Return the cosines [N, T] of images with any unit vectors of the text's side, as those of classes."""
        return self.images(refs) @ text_TD.T

    def similarities(self, texts: Sequence[str], other_texts: Sequence[str]) -> np.ndarray:
        """Return the cosine of text n with other text n, shape N."""
        return np.einsum("nd,nd->n", self.texts(texts), self.texts(other_texts))

    def blocks(self, refs: Sequence[str], texts: Sequence[str]) -> tuple[metrics.BlockScores, metrics.BlockScores]:
        """Return the scores of blocks of images with all texts, and of texts with all images."""
        image_ID = self.image_ID[_rows(refs, self.image_row)]
        return metrics.product_blocks(image_ID, self.text_TD[_rows(texts, self.text_row)])

    def ranks(self, refs: Sequence[str], texts: Sequence[str], owner_T: np.ndarray, first: int = 0) -> metrics.Ranks:
        """Rank texts for each image and images for each text, whose own are `owner_T`: `metrics.rank_both_ways`."""
        return metrics.rank_both_ways(self.blocks(refs, texts), len(refs), owner_T, first)

    def table(self, refs: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """Return the cosines of every image with every text, float32 [len(refs), len(texts)].

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

    def images(self, refs: Sequence[str]) -> np.ndarray:
        """Raises NoVectorsError: the cosines of pictures' vectors are other numbers."""
        raise NoVectorsError("pictures")

    def matches(self, refs: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """Return the score of image n with text n, shape N."""
        pairs = list(zip(refs, texts, strict=True))
        unscored = [pair for pair in dict.fromkeys(pairs) if pair not in self.score_of]
        if unscored:
            self.score_of.update(zip(unscored, self.ask(unscored).tolist(), strict=True))
        return np.array([self.score_of[pair] for pair in pairs])

    def table(self, refs: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """Return the score of every image with every text, float32 [len(refs), len(texts)]: as many pairs."""
        rows = self.matches(np.repeat(np.array(refs, object), len(texts)).tolist(), list(texts) * len(refs))
        return rows.reshape(len(refs), len(texts)).astype(np.float32)

    def blocks(self, refs: Sequence[str], texts: Sequence[str]) -> tuple[metrics.BlockScores, metrics.BlockScores]:
        """Return those of the whole table."""
        return metrics.table_blocks(self.table(refs, texts))


def cut_batches(values: Sequence[T], size: int) -> list[Sequence[T]]:
    """Cut values into batches of `size`, the last one in part."""
    return [values[start : start + size] for start in range(0, len(values), size)]


def number_keys(keys: Iterable[str]) -> dict[str, int]:
    """Return the row of each of the vectors' different keys."""
    return {key: row for row, key in enumerate(keys)}


def _rows(keys: Sequence[str], row: dict[str, int]) -> np.ndarray:
    return np.array([row[key] for key in keys], dtype=np.int64)

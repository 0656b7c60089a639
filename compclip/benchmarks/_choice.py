"""Benchmarks that are a choice: one query, its match and wrong candidates of the other kind.

N records, K candidates.

A record's first candidate is the match. Right where the query is nearer to it than to every other one; a tie is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from compclip.evaluate.benchmark import Items, Record, by_subset, ids, readable
from compclip.evaluate.embeddings import Embeddings

Scores = Callable[[Embeddings, list[Record]], list[np.ndarray]]


def of_texts(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """A metric a subset: the record's image chooses among its texts."""
    return _by_subset(records, embeddings, _text_scores)


def of_images(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """A metric a subset: the record's text chooses among its images."""
    return _by_subset(records, embeddings, _image_scores)


def with_foils(records: Sequence[Record]) -> tuple[tuple[Record, ...], dict[str, int]]:
    """The records without the wrong texts that read like the caption but for case and spaces; and counts of what goes.

    A shuffle or a swap may give the caption back: a tie that says nothing of the model. So does a record of such alone.
    """
    pruned = [_pruned(record) for record in records]
    repeats = sum(len(a.texts) - len(b.texts) for a, b in zip(records, pruned, strict=True))
    kept = tuple(record for record in pruned if len(record.texts) > 1)
    return kept, {"foil_is_caption": repeats, "without_foil": len(pruned) - len(kept)}


def _pruned(record: Record) -> Record:
    caption, *foils = record.texts
    return replace(record, texts=(caption, *(foil for foil in foils if _letters(foil) != _letters(caption))))


def _letters(text: str) -> str:
    """Without case and spaces: splitting into words makes "man's" into "man 's", which is one text to CLIP."""
    return "".join(text.lower().split())


def match_first(candidates: Sequence[str], match: int) -> tuple[str, ...]:
    """The candidates in their order, but for the match, which comes first."""
    return (candidates[match], *candidates[:match], *candidates[match + 1 :])


def first_wins(scores_K: np.ndarray) -> bool:
    """Whether the first score is above all others."""
    return bool((scores_K[0] > scores_K[1:]).all())


def _by_subset(records: Sequence[Record], embeddings: Embeddings, scores: Scores) -> dict[str, Items]:
    found = {}
    for subset, part in by_subset(readable(records, embeddings)).items():
        right_N = np.array([first_wins(scores_K) for scores_K in scores(embeddings, part)], dtype=np.float64)
        found[subset] = Items(ids(part), right_N, subset)
    return found


def _text_scores(embeddings: Embeddings, part: list[Record]) -> list[np.ndarray]:
    pairs = [(record.images[0], text) for record in part for text in record.texts]
    return _split(embeddings, pairs, [len(record.texts) for record in part])


def _image_scores(embeddings: Embeddings, part: list[Record]) -> list[np.ndarray]:
    pairs = [(image, record.texts[0]) for record in part for image in record.images]
    return _split(embeddings, pairs, [len(record.images) for record in part])


def _split(embeddings: Embeddings, pairs: list[tuple[str, str]], lengths: list[int]) -> list[np.ndarray]:
    """Cosines of all pairs in one go, cut into the candidates of each record."""
    images, texts = zip(*pairs, strict=True)
    return np.split(embeddings.matches(images, texts), np.cumsum(lengths)[:-1])

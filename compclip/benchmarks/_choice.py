"""Benchmarks that are a choice: one query, its match and wrong candidates of the other kind.

N records, K candidates, S scores of all records one after the other.

A record's first candidate is the match. Right where the query is nearer to it than to every other one; a tie is wrong.
With ties `first` the first of equals is chosen, in the authors' order: the match loses to the equals among the `ahead`
wrong candidates that stand right behind it here and before it there. `strict` is for authors with whom a tie is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from compclip.config.how import FIRST
from compclip.evaluate.benchmark import Benchmark, Items, Record, by_subset, ids, readable, those
from compclip.evaluate.embeddings import Embeddings

Scores = Callable[[Embeddings, list[Record]], np.ndarray]


def of_texts(records: Sequence[Record], embeddings: Embeddings, strict: bool = False) -> dict[str, Items]:
    """A metric a subset: the record's image chooses among its texts."""
    return _by_subset(records, embeddings, _text_scores, strict)


def of_images(records: Sequence[Record], embeddings: Embeddings, strict: bool = False) -> dict[str, Items]:
    """A metric a subset: the record's text chooses among its images."""
    return _by_subset(records, embeddings, _image_scores, strict)


def without_repeats(authors: Benchmark) -> Benchmark:
    """A benchmark without the wrong texts that repeat their caption, and without the records that have no others.

    A tie alone decides those. What goes is counted; the authors' records stay beside, for ties that go to the first.
    """
    records, repeats = with_foils(authors.records)
    return replace(authors, records=records, dropped={**repeats, **authors.dropped}, authors=authors)


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


def decided(
    scores_S: np.ndarray, length_N: np.ndarray, ahead_N: np.ndarray, first: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Whether the first score of each record is above its others, and whether it is equal to the best of them.

    With `first` it may be equal to the others but those that stand ahead of it.
    """
    start_N = np.cumsum(length_N) - length_N
    place_S = np.arange(len(scores_S)) - np.repeat(start_N, length_N)
    match_N = scores_S[start_N]
    others_N = _best(scores_S, place_S > 0, start_N)
    right_N = match_N > others_N
    if first:
        ahead_S = (place_S > 0) & (place_S <= np.repeat(ahead_N, length_N))
        right_N = (match_N >= others_N) & (match_N > _best(scores_S, ahead_S, start_N))
    return right_N, match_N == others_N


def _best(scores_S: np.ndarray, counts_S: np.ndarray, start_N: np.ndarray) -> np.ndarray:
    """The best of each record's scores that count, NaN if one of them is; -inf where none counts."""
    return np.maximum.reduceat(np.where(counts_S, scores_S, -np.inf), start_N)


def _by_subset(records: Sequence[Record], embeddings: Embeddings, scores: Scores, strict: bool) -> dict[str, Items]:
    first = embeddings.ties == FIRST and not strict
    parts = by_subset(readable(records, embeddings))
    return {subset: _items(subset, part, scores(embeddings, part), first) for subset, part in parts.items()}


def _items(subset: str, part: list[Record], scores_S: np.ndarray, first: bool) -> Items:
    length_N = np.array([max(len(record.texts), len(record.images)) for record in part])
    ahead_N = np.array([record.ahead for record in part])
    right_N, tied_N = decided(scores_S, length_N, ahead_N, first)
    keys = ids(part)
    return Items(keys, right_N.astype(np.float64), subset, those(keys, tied_N))


def _text_scores(embeddings: Embeddings, part: list[Record]) -> np.ndarray:
    return _matches(embeddings, [(record.images[0], text) for record in part for text in record.texts])


def _image_scores(embeddings: Embeddings, part: list[Record]) -> np.ndarray:
    return _matches(embeddings, [(image, record.texts[0]) for record in part for image in record.images])


def _matches(embeddings: Embeddings, pairs: list[tuple[str, str]]) -> np.ndarray:
    """Cosines of all pairs in one go, shape S."""
    images, texts = zip(*pairs, strict=True)
    return embeddings.matches(images, texts)

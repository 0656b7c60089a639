"""Benchmarks that are a choice: one query, its match and wrong candidates of the other kind.

N records, K candidates, S scores of all records one after the other.

A record's first candidate is the match. Right where the query is nearer to it than to every other one; a tie is wrong.
With ties `first` the first of equals is chosen, in the authors' order: the match loses to the equals among the `ahead`
wrong candidates that stand right behind it here and before it there. `strict` is for authors with whom a tie is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from compclip.config.sections import FIRST
from compclip.evaluate.benchmark import Benchmark, Record, by_subset, column, flagged_ids, ids, pictures, readable
from compclip.evaluate.embeddings import Embeddings
from compclip.evaluate.metrics import PerItem, tied_items
from compclip.runs.item_outcomes import Items


def choose(records: Sequence[Record], embeddings: Embeddings, strict: bool = False) -> dict[str, Items]:
    """Return one metric for each subset: whether a record's image chooses its match among its texts.

    Or its text among its images, where it has several of these.
    """
    items_of = {}
    for subset, subset_records in by_subset(readable(records, embeddings)).items():
        images: list[str] = []
        texts: list[str] = []
        lengths = []
        for record in subset_records:  # a record has one image or one text, and its candidates of the other
            images += record.images * len(record.texts)
            texts += record.texts * len(record.images)
            lengths.append(len(record.images) * len(record.texts))
        ahead_N = np.array([record.ahead for record in subset_records])
        first = embeddings.ties == FIRST and not strict
        right_N, tied_N = decide(embeddings.matches(images, texts), np.array(lengths), ahead_N, first)
        keys = ids(subset_records)
        items_of[subset] = Items(keys, right_N.astype(np.float64), subset, flagged_ids(keys, tied_N))
    return items_of


def compare_texts(
    records: Sequence[Record], embeddings: Embeddings, outcomes: Callable[..., PerItem], texts: int
) -> dict[tuple[str, str], Items]:
    """Return outcomes by subset and name, from the scores of each record's image with its first `texts` texts."""
    items = {}
    for subset, subset_records in by_subset(readable(records, embeddings)).items():
        images = pictures(subset_records)
        keys = ids(subset_records)
        scores = [embeddings.matches(images, column(subset_records, text)) for text in range(texts)]
        tied = flagged_ids(keys, tied_items(outcomes, *scores))
        for name, outcome_N in outcomes(*scores).items():
            items[subset, name] = Items(keys, outcome_N, subset, tied)
    return items


def without_repeats(authors: Benchmark) -> Benchmark:
    """Drop wrong texts that repeat their caption, and records without others.

    A tie alone decides those. What goes is counted; the authors' records stay beside, for ties that go to the first.
    """
    records, repeats = with_foils(authors.records)
    return replace(authors, records=records, dropped={**repeats, **authors.dropped}, authors=authors)


def with_foils(records: Sequence[Record]) -> tuple[tuple[Record, ...], dict[str, int]]:
    """Drop wrong texts that equal the caption but for case and spaces; return the records and counts of what goes.

    A shuffle or a swap may give the caption back: a tie that says nothing of the model. So does a record of such alone.
    """
    with_others = []
    repeats = 0
    for record in records:
        caption, *foils = record.texts
        changed_foils = [foil for foil in foils if _letters(foil) != _letters(caption)]
        repeats += len(foils) - len(changed_foils)
        if changed_foils:
            with_others.append(replace(record, texts=(caption, *changed_foils)))
    return tuple(with_others), {"foil_is_caption": repeats, "without_foil": len(records) - len(with_others)}


def _letters(text: str) -> str:
    """Drop case and spaces: splitting into words makes "man's" into "man 's", which is one text to CLIP."""
    return "".join(text.lower().split())


def match_first(candidates: Sequence[str], match: int) -> tuple[str, ...]:
    """Return the candidates in their order, but with the match first."""
    return (candidates[match], *candidates[:match], *candidates[match + 1 :])


def decide(
    scores_S: np.ndarray, length_N: np.ndarray, ahead_N: np.ndarray, first: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether the first score of each record is above its others, and whether it equals the best of them.

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
    """Return the best of each record's scores that count, NaN if one of them is; -inf where none counts."""
    return np.maximum.reduceat(np.where(counts_S, scores_S, -np.inf), start_N)


def split_by_kind(
    name: str, items: Items, kind_of: Mapping[tuple[str, str], str], kinds: Sequence[str]
) -> dict[str, Items]:
    """Return `<name>_<kind>` for each of `kinds`: the items of that kind, which `kind_of` has by subset and id."""
    kind_N = np.array([kind_of[items.subset, key] for key in items.ids])
    items_of = {}
    for kind in kinds:
        tied = tuple(key for key in items.tied if kind_of[items.subset, key] == kind)
        keys = flagged_ids(items.ids, kind_N == kind)
        items_of[f"{name}_{kind}"] = Items(keys, items.values[kind_N == kind], items.subset, tied)
    return items_of

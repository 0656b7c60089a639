"""Benchmarks whose records are two pictures, each with its text: Winoground's three scores, subset by subset.

N records.

A record's first text belongs to its first picture, the second to the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compclip.benchmarks import winoground
from compclip.evaluate.benchmark import Items, Record, by_subset, readable
from compclip.evaluate.embeddings import Embeddings

SCORES = winoground.METRICS


def evaluate(records: Sequence[Record], embeddings: Embeddings) -> dict[str, Items]:
    """`<subset>_text`, `<subset>_image` and `<subset>_group` of the records both of whose pictures were read."""
    parts = by_subset(readable(records, embeddings))
    return {
        f"{subset}_{score}": items
        for subset, part in parts.items()
        for score, items in winoground.items(part, embeddings, subset).items()
    }


def metrics(subsets: Iterable[str]) -> tuple[str, ...]:
    """The names of all scores: of each subset, and the means."""
    return (*(f"{subset}_{score}" for subset in subsets for score in SCORES), *SCORES)


def means(subsets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """`text`, `image` and `group`: the mean of each over the subsets, every subset weighing the same."""
    names = tuple(subsets)
    return {score: tuple(f"{subset}_{score}" for subset in names) for score in SCORES}

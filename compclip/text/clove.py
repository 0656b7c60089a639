"""CLoVe's replace rule (Castro et al., 2024, Sec. 4.1), which FSC-CLIP's released code uses.

Of each entity, attribute and relation of a caption (`scene.read`) up to two replacements are drawn, by weight and
without repetition, and of all of them one: a kind's share is the number of its elements. A preposition gives way to
another one, by its count in captions; a noun, verb, adjective or adverb to one of its stored relatives
(`relatives.weighted`), for which data are annotated with `relatives: true`. Articles stay as they are.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right

import numpy as np

from compclip.base.errors import UserError
from compclip.text import edits, prepositions, scene
from compclip.text.annotation import Annotation, Weighted

DRAWS = 2  # replacements of an element
NONE: Weighted = ((), ())


def replace(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Replace one element by another of its kind; None for a caption that says too little.

    Raises UserError for data that were annotated without relatives.
    """
    if len(annotation.relatives) < len(annotation):
        raise UserError("replace=clove: the data have no relatives; set data.<name>.relatives to true")
    found = [replacements(annotation, element) for element in scene.read(annotation)]
    slots = [(place, words, number) for place, words in found for number in range(min(DRAWS, len(words[0])))]
    if not slots:
        return None
    place, words, number = slots[rng.integers(len(slots))]
    return edits.put(annotation.text, place, _as_written(_drawn(words, number, rng), annotation.text[slice(*place)]))


def replacements(a: Annotation, element: scene.Element) -> tuple[tuple[int, int], Weighted]:
    """The characters that an element gives up, and what may stand there."""
    if a.pos[element.root] == "ADP":
        place = a.chars(element.span)
        return place, prepositions.others(a.text[slice(*place)])
    token = (element.root, element.root + 1)
    words = a.relatives[element.root] if edits.is_word(a, element.root) else NONE
    return a.chars(token), words


def _drawn(table: Weighted, number: int, rng: np.random.Generator) -> str:
    """The word drawn at a place, counted from 0, of draws without repetition."""
    words, weights = table[0], list(table[1])
    for _ in range(number):
        weights[_index(weights, rng)] = 0
    return words[_index(weights, rng)]


def _index(weights: list[int], rng: np.random.Generator) -> int:
    ends = list(itertools.accumulate(weights))
    return bisect_right(ends, rng.integers(ends[-1]))


def _as_written(new: str, old: str) -> str:
    if old.isupper() and len(old) > 1:
        return new.upper()
    return new[0].upper() + new[1:] if old[0].isupper() else new

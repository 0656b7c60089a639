"""CLoVe's replace rule (Castro et al., 2024, Sec. 4.1), which FSC-CLIP's released code uses.

For each entity, attribute and relation of a caption (`scene_graph.read_scene`) up to two replacements are drawn, by
weight and without repetition, and one of all these: a kind's share is the number of its elements. A preposition is
replaced by another one, by its count in captions; a noun, verb, adjective or adverb by one of its stored relatives
(`wordnet_relatives.find_relatives`), for which data are annotated with `relatives: true`. Articles stay as they are.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right

import numpy as np

from compclip.base.errors import UserError
from compclip.text import prepositions, scene_graph, word_edits
from compclip.text.annotation import Annotation, Weighted

DRAWS = 2  # replacements of an element
NONE: Weighted = ((), ())


def replace(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Replace one element by another of its kind; None for a caption that says too little.

    Raises UserError for data that were annotated without relatives.
    """
    if len(annotation.relatives) < len(annotation):
        raise UserError("replace=clove: the data have no relatives; set data.<name>.relatives to true")
    alternatives = [find_replacements(annotation, element) for element in scene_graph.read_scene(annotation)]
    slots = [(span, words, number) for span, words in alternatives for number in range(min(DRAWS, len(words[0])))]
    if not slots:
        return None
    span, words, number = slots[rng.integers(len(slots))]
    new = _match_case(_draw(words, number, rng), annotation.text[slice(*span)])
    return word_edits.replace_span(annotation.text, span, new)


def find_replacements(a: Annotation, element: scene_graph.SceneElement) -> tuple[tuple[int, int], Weighted]:
    """Return the character span of an element that is replaced, and the weighted words for it."""
    if a.pos[element.root] == "ADP":
        span = a.chars(element.span)
        return span, prepositions.other_prepositions(a.text[slice(*span)])
    token = (element.root, element.root + 1)
    words = a.relatives[element.root] if word_edits.is_word(a, element.root) else NONE
    return a.chars(token), words


def _draw(table: Weighted, number: int, rng: np.random.Generator) -> str:
    """Return draw `number`, counted from 0, of weighted draws without repetition."""
    words, weights = table[0], list(table[1])
    for _ in range(number):
        weights[_draw_index(weights, rng)] = 0
    return words[_draw_index(weights, rng)]


def _draw_index(weights: list[int], rng: np.random.Generator) -> int:
    ends = list(itertools.accumulate(weights))
    return bisect_right(ends, rng.integers(ends[-1]))


def _match_case(new: str, old: str) -> str:
    if old.isupper() and len(old) > 1:
        return new.upper()
    return new[0].upper() + new[1:] if old[0].isupper() else new

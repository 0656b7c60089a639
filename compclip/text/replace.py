"""Negatives by replacement: an entity, attribute or relation gives way to another of its kind.

`wordnet` is FSC-CLIP's rule (A.1): a word gives way to an antonym or co-hyponym.

`clove` is CLoVe's (Castro et al., 2024, Sec. 4.1), which FSC-CLIP's released code uses. For each entity, attribute and
relation of a caption (`scene_graph.read_scene`) up to two replacements are drawn, by weight and without repetition, and
one of all these: a kind's share is the number of its elements. A preposition is replaced by another one, by its count
in captions; a noun, verb, adjective or adverb by one of its stored relatives (`relative_words`), for which data are
annotated with `relatives: true`. Articles stay as they are.

The words to choose from were stored when the caption was annotated; WordNet is not needed here.
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from compclip.base.errors import UserError
from compclip.text import scene_graph, word_edits
from compclip.text.annotation import NO_WORDS, Annotation, Weighted
from compclip.text.rule_columns import reads_columns
from compclip.text.word_edits import draw_index

ATTRIBUTE = "attribute"
KINDS = {"NOUN": "entity", "PROPN": "entity", "ADJ": ATTRIBUTE, "NUM": ATTRIBUTE, "ADV": ATTRIBUTE, "VERB": "relation"}
DRAWS = 2  # replacements of an element by `clove`


@reads_columns("tokens", "candidates")
def wordnet(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Replace one word by a stored candidate; each of the three kinds that occurs has the same chance."""
    kinds: dict[str, list[int]] = {}
    for token, words in enumerate(annotation.candidates):
        if words:
            kinds.setdefault(KINDS[annotation.pos[token]], []).append(token)
    if not kinds:
        return None
    return _replace_one(annotation, list(kinds.values())[draw_index(rng, len(kinds))], rng)


@functools.cache
def of_pos(*pos: str) -> Callable[[Annotation, np.random.Generator], str | None]:
    """Return the rule that replaces one word of some parts of speech by a stored candidate."""

    @reads_columns("tokens", "candidates")
    def rule(annotation: Annotation, rng: np.random.Generator) -> str | None:
        tokens = [t for t, words in enumerate(annotation.candidates) if words and annotation.pos[t] in pos]
        return _replace_one(annotation, tokens, rng) if tokens else None

    rule.__name__ = f"of_{'_'.join(pos).lower()}"  # by which a run says how many samples it gave a text
    return rule


def _replace_one(annotation: Annotation, tokens: list[int], rng: np.random.Generator) -> str:
    token = tokens[draw_index(rng, len(tokens))]
    words = annotation.candidates[token]
    text = annotation.text
    return text[: annotation.starts[token]] + words[draw_index(rng, len(words))] + text[annotation.ends[token] :]


@reads_columns("tokens", "chunks", "relatives")
def clove(annotation: Annotation, rng: np.random.Generator) -> str | None:
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
    old = annotation.text[slice(*span)]
    new = word_edits.write_like(old, draw_weighted(words, number, rng))
    return word_edits.replace_span(annotation.text, span, new)


def find_replacements(a: Annotation, element: scene_graph.SceneElement) -> tuple[tuple[int, int], Weighted]:
    """Return the character span of an element that is replaced, and the weighted words for it."""
    if a.pos[element.root] == "ADP":
        span = a.chars(element.span)
        return span, scene_graph.other_prepositions(a.text[slice(*span)])
    words = a.relatives[element.root] if word_edits.is_word(a, element.root) else NO_WORDS
    return a.chars((element.root, element.root + 1)), words


def draw_weighted(table: Weighted, number: int, rng: np.random.Generator) -> str:
    """Return draw `number`, counted from 0, of weighted draws without repetition."""
    words = table[0]
    weights = list(table[1])
    word = ""
    for _ in range(number + 1):
        ends = list(itertools.accumulate(weights))
        index = bisect_right(ends, rng.integers(ends[-1]))
        word, weights[index] = words[index], 0
    return word


RULES = {"wordnet": wordnet, "clove": clove}

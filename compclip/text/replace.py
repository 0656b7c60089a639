"""Negatives by replacement: an entity, attribute or relation gives way to an antonym or co-hyponym (FSC-CLIP A.1).

The words to choose from were stored when the caption was annotated; WordNet is not needed here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from compclip.text import clove_replace, word_edits
from compclip.text.annotation import Annotation

KINDS = {
    "NOUN": "entity",
    "PROPN": "entity",
    "ADJ": "attribute",
    "NUM": "attribute",
    "ADV": "attribute",
    "VERB": "relation",
}


def wordnet(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Replace one word by a stored candidate; each of the three kinds that occurs has the same chance."""
    kinds: dict[str, list[int]] = {}
    for token, words in enumerate(annotation.candidates):
        if words:
            kinds.setdefault(KINDS[annotation.pos[token]], []).append(token)
    if not kinds:
        return None
    return _replaced(annotation, list(kinds.values())[rng.integers(len(kinds))], rng)


@functools.cache
def of_pos(*pos: str) -> Callable[[Annotation, np.random.Generator], str | None]:
    """Return the rule that replaces one word of some parts of speech by a stored candidate."""

    def rule(annotation: Annotation, rng: np.random.Generator) -> str | None:
        tokens = [t for t, words in enumerate(annotation.candidates) if words and annotation.pos[t] in pos]
        return _replaced(annotation, tokens, rng) if tokens else None

    rule.__name__ = f"of_{'_'.join(pos).lower()}"  # by which a run says how many samples it gave a text
    return rule


def _replaced(annotation: Annotation, tokens: list[int], rng: np.random.Generator) -> str:
    token = tokens[rng.integers(len(tokens))]
    words = annotation.candidates[token]
    return word_edits.replace_span(
        annotation.text, annotation.chars((token, token + 1)), words[rng.integers(len(words))]
    )


RULES = {"wordnet": wordnet, "clove": clove_replace.replace}

"""Negatives by a masked language model: one word gives way to one that the model puts in its place (SVLC's L, CE-CLIP).

The model's words were stored when the data was made; the model is not needed here. Synonyms of the caption's word are
not excluded, as in the authors' programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from compclip.text import word_edits
from compclip.text.annotation import Annotation, requires_stored


@requires_stored("masked")
def any_word(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Replace one word that has predictions, drawn evenly, by one of them; None without such a word."""
    return _replace_one(annotation, range(len(annotation.masked)), rng)


def of_pos(*tags: str) -> Callable[[Annotation, np.random.Generator], str | None]:
    """Return the rule that replaces one word of some parts of speech, as "ADJ"."""
    rule: Any = functools.partial(_replace_of_pos, frozenset(tags))
    rule.__name__ = f"of_{'_'.join(tags).lower()}"  # by which a run says how many samples it gave a text
    return rule


@requires_stored("masked")
def _replace_of_pos(tags: frozenset[str], annotation: Annotation, rng: np.random.Generator) -> str | None:
    tokens = [token for token, _ in enumerate(annotation.masked) if annotation.pos[token] in tags]
    return _replace_one(annotation, tokens, rng)


def _replace_one(a: Annotation, tokens: range | list[int], rng: np.random.Generator) -> str | None:
    other_words = {
        t: [word for word in a.masked[t] if not word_edits.equal_ignoring_case(word, a.word(t))] for t in tokens
    }
    predictions = [(token, words) for token, words in other_words.items() if words]
    if not predictions:
        return None
    token, words = predictions[rng.integers(len(predictions))]
    span, word = a.chars((token, token + 1)), words[rng.integers(len(words))]
    if word_edits.leads_sentence(a, span[0]):
        word = word_edits.capitalize_first(word)
    return word_edits.replace_span(a.text, span, word)

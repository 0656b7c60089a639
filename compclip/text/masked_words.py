"""Negatives by a masked language model: one word gives way to one that the model puts in its place (SVLC's L, CE-CLIP).

The model's words were stored when the data was made; the model is not needed here. Synonyms of the caption's word are
not excluded, as in the authors' programs.

`of_pos_released` draws as CE-CLIP's program (lezhang7/Enhance-FineGrained ef87eb7, data/dataset.py:139), for data with
`masked: {rank: 4, bare: true}`. Departure: a word whose letters first stand within another one gives no text (released:
that one is broken).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from compclip.text import word_edits
from compclip.text.annotation import BARE, Annotation
from compclip.text.rule_columns import reads_columns

WordRule = Callable[[Annotation, np.random.Generator], "str | None"]


@reads_columns("tokens", "sentences", "masked", requires="masked")
def any_word(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Replace one word that has predictions, drawn evenly, by one of them; None without such a word."""
    return _replace_one(annotation, range(len(annotation.masked)), rng)


@reads_columns("tokens", "sentences", "masked", requires="masked")
def either(rule: WordRule, annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Ask a rule or the model by a fair coin; None where that one has nothing, whatever the other has."""
    return (rule if rng.random() < 0.5 else any_word)(annotation, rng)


@reads_columns("tokens", "sentences", "masked", requires="masked.dense")
def either_of_dense(rule: WordRule, annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Do as `either` with texts beside the caption, whose words were stored as well."""
    return either(rule, annotation, rng)


def of_pos(*tags: str) -> WordRule:
    """Return the rule that replaces one word of some parts of speech, as "ADJ"."""
    rule: Any = functools.partial(_replace_of_pos, frozenset(tags))
    rule.__name__ = f"of_{'_'.join(tags).lower()}"  # by which a run says how many samples it gave a text
    return rule


def of_pos_released(*tags: str) -> WordRule:
    """Return the rule that draws a word of some parts of speech and replaces it where its letters first stand.

    A caption without such a word becomes the model's word for a mask alone.
    """
    rule: Any = functools.partial(_replace_first, frozenset(tags))
    rule.__name__ = f"of_{'_'.join(tags).lower()}_released"
    return rule


@reads_columns("tokens", "sentences", "masked", requires="masked")
def _replace_of_pos(tags: frozenset[str], annotation: Annotation, rng: np.random.Generator) -> str | None:
    tokens = [token for token in range(len(annotation.masked)) if annotation.pos[token] in tags]
    return _replace_one(annotation, tokens, rng)


@reads_columns("tokens", "masked", "stored_bare", requires="masked")
def _replace_first(tags: frozenset[str], annotation: Annotation, rng: np.random.Generator) -> str | None:
    tokens = [token for token, pos in enumerate(annotation.pos) if pos in tags]
    if not tokens:
        return next(iter(annotation.stored.get(BARE, ())), None)
    word = annotation.word(tokens[rng.integers(len(tokens))])
    start = annotation.text.find(word)
    token = annotation.starts.index(start) if start in annotation.starts else -1
    if token < 0 or annotation.word(token) != word or not any(annotation.masked[token : token + 1]):
        return None
    return word_edits.replace_span(annotation.text, annotation.chars((token, token + 1)), annotation.masked[token][0])


def _replace_one(a: Annotation, tokens: range | list[int], rng: np.random.Generator) -> str | None:
    predictions = []
    for token in tokens:
        words = [word for word in a.masked[token] if not word_edits.equal_ignoring_case(word, a.word(token))]
        if words:
            predictions.append((token, words))
    if not predictions:
        return None
    token, words = predictions[rng.integers(len(predictions))]
    span = a.chars((token, token + 1))
    word = words[rng.integers(len(words))]
    if word_edits.leads_sentence(a, span[0]):
        word = word_edits.capitalize_first(word)
    return word_edits.replace_span(a.text, span, word)

"""Negatives by a masked language model: one word gives way to one that the model puts in its place (SVLC's L, CE-CLIP).

The model's words were stored when the data was made; it is not needed here. That a word is no synonym of the caption's
is not asked, as in the authors' programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from compclip.base.beside import beside_captions
from compclip.text import edits
from compclip.text.annotation import Annotation


@beside_captions("masked")
def any_word(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Replace one word, each that has predictions with the same chance, by one of these; None without such a word."""
    return _replaced(annotation, range(len(annotation.masked)), rng)


def of_pos(*parts: str) -> Callable[[Annotation, np.random.Generator], str | None]:
    """The rule that replaces one word of some parts of speech, as "ADJ"."""
    rule = functools.partial(_of, frozenset(parts))
    rule.__name__ = f"of_{'_'.join(parts).lower()}"  # by which a run says how many samples it gave a text
    return rule


@beside_captions("masked")
def _of(parts: frozenset[str], annotation: Annotation, rng: np.random.Generator) -> str | None:
    tokens = [token for token, _ in enumerate(annotation.masked) if annotation.pos[token] in parts]
    return _replaced(annotation, tokens, rng)


def _replaced(a: Annotation, tokens: range | list[int], rng: np.random.Generator) -> str | None:
    found = [(token, words) for token in tokens if (words := _others(a, token))]
    if not found:
        return None
    token, words = found[rng.integers(len(found))]
    place, word = a.chars((token, token + 1)), words[rng.integers(len(words))]
    return edits.put(a.text, place, word[:1].upper() + word[1:] if edits.leads(a, place[0]) else word)


def _others(a: Annotation, token: int) -> list[str]:
    return [word for word in a.masked[token] if not edits.same(word, a.word(token))]

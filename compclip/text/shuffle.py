"""Negatives by order alone: the caption's pairs of words, shuffled (FSC-CLIP A.1).

`bigram` is ours: pairs of words within each sentence. `tokens` pairs what the parser parts, as the released code does.
"""

from __future__ import annotations

import re
import string

import numpy as np

from compclip.text.annotation import Annotation

TRIES = 10
_FINAL = re.compile(r"\s*[.!?…]+[\"'”’)]*\s*$|\s*$")


def bigram(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Shuffle each sentence's consecutive pairs of words; final punctuation stays. None if ten tries fail.

    A word is what white space bounds; an odd last word is a group of its own.
    """
    text = annotation.text
    for _ in range(TRIES):
        changed, at = "", 0
        for begin, end in annotation.sentences:
            changed += text[at:begin] + _shuffled(text[begin:end], rng)
            at = end
        changed += text[at:]
        if changed.casefold().split() != text.casefold().split():
            return changed
    return None


def tokens(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Shuffle the whole caption's consecutive pairs of tokens, full stops among them, joined by single spaces.

    A last mark without a partner is put before or after a random pair. None if ten tries change no more than the marks
    at the ends, or there is a single pair.
    """
    kept = [t for t, pos in enumerate(annotation.pos) if pos != "SPACE"]
    last = kept[-1:] if len(kept) % 2 and annotation.pos[kept[-1]] == "PUNCT" else []
    kept = kept[: len(kept) - len(last)]
    pairs = [kept[i : i + 2] for i in range(0, len(kept), 2)]
    for _ in range(TRIES if len(pairs) > 1 else 0):
        order = [pairs[i] for i in rng.permutation(len(pairs))]
        if last:
            order.insert(int(rng.integers(len(pairs)) + rng.integers(2)), last)
        changed = _written(annotation, [token for pair in order for token in pair])
        if _inner(changed) != _inner(annotation.text):
            return changed
    return None


RULES = {"words": bigram, "tokens": tokens}


def _written(a: Annotation, order: list[int]) -> str:
    """Tokens with a space before each but the first and marks."""
    return "".join([a.word(t) if a.pos[t] == "PUNCT" else f" {a.word(t)}" for t in order]).strip()


def _inner(text: str) -> str:
    return " ".join(text.casefold().split()).strip(string.punctuation + " ")


def _shuffled(sentence: str, rng: np.random.Generator) -> str:
    final = _FINAL.search(sentence)[0]
    words = sentence[: len(sentence) - len(final)].split()
    pairs = [" ".join(words[i : i + 2]) for i in range(0, len(words), 2)]
    return " ".join([pairs[i] for i in rng.permutation(len(pairs))]) + final

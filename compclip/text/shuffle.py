"""Negatives by order alone: the caption's pairs of words, shuffled (FSC-CLIP A.1)."""

from __future__ import annotations

import re

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


def _shuffled(sentence: str, rng: np.random.Generator) -> str:
    final = _FINAL.search(sentence)[0]
    words = sentence[: len(sentence) - len(final)].split()
    pairs = [" ".join(words[i : i + 2]) for i in range(0, len(words), 2)]
    return " ".join([pairs[i] for i in rng.permutation(len(pairs))]) + final

"""Negatives by order alone: the caption's pairs of words, shuffled (FSC-CLIP A.1), or its nouns and adjectives (ARO).

`bigram` is ours: pairs of words within each sentence. `tokens`: pairs of the parser's tokens, as in the released code.
"""

from __future__ import annotations

import itertools
import string

import numpy as np

from compclip.text.annotation import Annotation
from compclip.text.rule_columns import reads_columns

TRIES = 10
_MARKS = ".!?…"
_CLOSERS = "\"'”’)"  # may stand behind the final mark


@reads_columns("sentences")
def bigram(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Shuffle each sentence's consecutive pairs of words; final punctuation stays. None if ten tries fail.

    A word is what white space bounds; an odd last word is a group of its own.
    """
    text = annotation.text
    words = text.casefold().split()
    for _ in range(TRIES):
        changed = ""
        at = 0
        for begin, end in annotation.sentences:
            changed += text[at:begin] + _shuffle_pairs(text[begin:end], rng)
            at = end
        changed += text[at:]
        if changed.casefold().split() != words:
            return changed
    return None


@reads_columns("tokens")
def tokens(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Shuffle the whole caption's consecutive pairs of tokens, full stops among them, joined by single spaces.

    A last mark without a partner is put before or after a random pair. None if ten tries change no more than the marks
    at the ends, or there is a single pair.
    """
    order_of_text = [t for t, pos in enumerate(annotation.pos) if pos != "SPACE"]
    last = order_of_text[-1:] if len(order_of_text) % 2 and annotation.pos[order_of_text[-1]] == "PUNCT" else []
    order_of_text = order_of_text[: len(order_of_text) - len(last)]
    pairs = [order_of_text[i : i + 2] for i in range(0, len(order_of_text), 2)]
    for _ in range(TRIES if len(pairs) > 1 else 0):
        order = [pairs[i] for i in rng.permutation(len(pairs))]
        if last:
            order.insert(int(rng.integers(len(pairs)) + rng.integers(2)), last)
        changed = ""
        for token in itertools.chain.from_iterable(order):
            changed += annotation.word(token) if annotation.pos[token] == "PUNCT" else f" {annotation.word(token)}"
        changed = changed.strip()
        if _inner_text(changed) != _inner_text(annotation.text):
            return changed
    return None


@reads_columns("tokens")
def nouns_and_adjectives(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Shuffle the nouns among their places, and the adjectives among theirs (ARO's `shuffle_nouns_and_adj`).

    Names are nouns; the rest of the text stays as it is written. None if ten tries leave the text as it was.
    """
    groups: dict[str, list[int]] = {"NN": [], "JJ": []}
    for token, tag in enumerate(annotation.tag):
        if tag[:2] in groups:
            groups[tag[:2]].append(token)
    for _ in range(TRIES if max(map(len, groups.values())) > 1 else 0):
        words: dict[int, str] = {}
        for group in groups.values():
            for token, source in zip(group, rng.permutation(group), strict=True):
                words[token] = annotation.word(source)
        changed = ""
        at = 0
        for token in sorted(words):
            changed += annotation.text[at : annotation.starts[token]] + words[token]
            at = annotation.ends[token]
        changed += annotation.text[at:]
        if changed.casefold() != annotation.text.casefold():
            return changed
    return None


RULES = {"words": bigram, "tokens": tokens}


def _inner_text(text: str) -> str:
    return " ".join(text.casefold().split()).strip(string.punctuation + " ")


def _shuffle_pairs(sentence: str, rng: np.random.Generator) -> str:
    body = sentence.rstrip()
    with_marks = body.rstrip(_CLOSERS)
    without_marks = with_marks.rstrip(_MARKS)
    if without_marks != with_marks:
        body = without_marks.rstrip()
    words = body.split()
    pairs = [" ".join(words[i : i + 2]) for i in range(0, len(words), 2)]
    rng.shuffle(pairs)
    return " ".join(pairs) + sentence[len(body) :]

"""Captions and negative of a composite: of two pictures, or of the sentences of one (CLIC Sec. 3.1, Table 10)."""

from __future__ import annotations

import numpy as np

from compclip.text import sentences, swap
from compclip.text.annotation import Annotation
from compclip.text.rule_columns import reads_columns


@reads_columns("tokens", "sentences")
def compose(
    a: tuple[Annotation, ...],
    b: tuple[Annotation, ...] | None,
    count: int,
    rng: np.random.Generator,
    common_noun: bool,
    ends: str,
) -> tuple[list[str], str | None]:
    """Return p1 … p_count and the negative of one caption, or of two, each given as its sentences."""
    if b is None:
        return compose_single(a, count, rng, ends)
    return compose_pair(a, b, count, rng, common_noun, ends)


def compose_pair(
    a: tuple[Annotation, ...],
    b: tuple[Annotation, ...],
    count: int,
    rng: np.random.Generator,
    common_noun: bool = False,
    ends: str = sentences.UNCHANGED_ENDS,
) -> tuple[list[str], str | None]:
    """Return p1 … p_count and the negative of two captions, given as their sentences.

    p1 joins the first sentences, p2 is p1 in the other order, p3 and on join further sentences, drawn without
    repetition as long as there are any. The negative exchanges a word of the two first sentences; not the one that made
    them partners (`common_noun`), unless a sentence has no other. `ends` is a key of `sentences.JOINS`.
    """
    first_a = a[0].text
    first_b = b[0].text
    join = sentences.JOINS[ends]
    positives = [join(first_a, first_b), join(first_b, first_a)][:count]
    more_a, more_b = (_further(s, count - 2, rng) for s in (a, b))
    for x, y in zip(more_a, more_b, strict=True):
        positives.append(join(x, y) if rng.random() < 0.5 else join(y, x))
    return positives, swap.clic(a[0], b[0], rng, keep_common=common_noun, ends=ends)


def compose_single(
    a: tuple[Annotation, ...], count: int, rng: np.random.Generator, ends: str = sentences.UNCHANGED_ENDS
) -> tuple[list[str], str | None]:
    """Return p1 … p_count and the negative of one picture (CLIC Table 10, B1-B4): p2 = p1, then further sentences."""
    positives = [a[0].text] * min(count, 2) + _further(a, count - 2, rng)
    negative = swap.single(a[0], rng)
    if ends == sentences.CLIC_ENDS:
        positives = [sentences.strip_full_stop(text) for text in positives]
        negative = negative and sentences.strip_full_stop(negative)
    return positives, negative


def _further(caption: tuple[Annotation, ...], count: int, rng: np.random.Generator) -> list[str]:
    """Draw `count` sentences other than the first; a caption without others gives its first one."""
    pool = [sentence.text for sentence in caption[1:]] or [caption[0].text]
    texts: list[str] = []
    while len(texts) < count:
        texts += [pool[i] for i in rng.permutation(len(pool))]
    return texts[: max(count, 0)]

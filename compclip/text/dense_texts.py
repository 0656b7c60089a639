"""Texts that are stored beside a caption as annotations of their own: with what a masked model says of their words."""

from __future__ import annotations

import functools

import numpy as np

from compclip.text import word_edits
from compclip.text.annotation import DENSE_MASKED, SEPARATOR, Annotation
from compclip.text.rule_columns import reads_columns
from compclip.text.text_groups import DrawnTexts, Rule, SampleTexts, TextGroup

ANY_POS = "X"  # these texts were not parsed


def list_texts(caption: Annotation) -> list[Annotation]:
    """Return the dense texts of a caption, and the caption itself as the last.

    A dense text has the places as tokens for which words are stored, and no others.
    """
    dense = caption.stored.get("dense", ())
    places = caption.stored.get(DENSE_MASKED, ("",) * len(dense))
    return [*map(_with_words, dense, places), caption]


@functools.lru_cache(16)  # views of equal parameters are equal
def bag(count: int, rule: Rule) -> TextGroup:
    """Return the group of texts drawn with replacement of all that is said of a caption, and a negative of each."""
    draw = functools.partial(_draw_bag, count, rule)
    return TextGroup("bag", draw, true=count, false=count)


@reads_columns("stored_dense", "stored_dense_masked")
def _draw_bag(count: int, rule: Rule, sample: SampleTexts, rng: np.random.Generator) -> DrawnTexts:
    texts = list_texts(sample.caption)
    drawn = [texts[i] for i in rng.integers(len(texts), size=count)]
    redraws = [functools.partial(rule, text) for text in drawn]
    return DrawnTexts([text.text for text in drawn], [redraw(rng) for redraw in redraws], redraws=redraws)


def _with_words(text: str, places: str) -> Annotation:
    """Return a text with the words of its places, which are as `prepare.annotate_shards` writes them."""
    rows = [line.split(SEPARATOR) for line in places.splitlines()]
    starts = tuple(int(start) for start, *_ in rows)
    return Annotation(
        text,
        starts,
        tuple(_word_end(text, start) for start in starts),
        (ANY_POS,) * len(rows),
        sentences=((0, len(text)),),
        masked=tuple(tuple(words) for _, *words in rows),
    )


def _word_end(text: str, start: int) -> int:
    """Return where the word ends that begins with a character."""
    return next(end for end in range(start + 1, len(text) + 1) if word_edits.is_bounded(text, start, end))

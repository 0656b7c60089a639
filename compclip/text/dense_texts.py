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
    true_texts = []
    false_texts = []
    redraws = []
    for number in rng.integers(len(texts), size=count):
        redraw = functools.partial(rule, texts[number])
        true_texts.append(texts[number].text)
        false_texts.append(redraw(rng))
        redraws.append(redraw)
    return DrawnTexts(true_texts, false_texts, redraws=redraws)


def _with_words(text: str, places: str) -> Annotation:
    """Return a text with the words of its places, which are as `prepare.annotate_shards` writes them."""
    starts = []
    ends = []
    masked = []
    for line in places.splitlines():
        place, *words = line.split(SEPARATOR)
        start = int(place)
        starts.append(start)
        ends.append(next(end for end in range(start + 1, len(text) + 1) if word_edits.is_bounded(text, start, end)))
        masked.append(tuple(words))
    pos = (ANY_POS,) * len(starts)
    return Annotation(text, tuple(starts), tuple(ends), pos, sentences=((0, len(text)),), masked=tuple(masked))

"""Texts that others wrote, stored beside a caption: its negatives and its paraphrases."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from compclip.text import word_edits
from compclip.text.annotation import Annotation, requires_stored


@requires_stored("texts.paraphrase")
def paraphrase(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Draw one of the stored paraphrases evenly; None without one."""
    stored = annotation.stored.get("paraphrase", ())
    texts = [text for text in stored if not word_edits.equal_ignoring_case(text, annotation.text)]
    return texts[rng.integers(len(texts))] if texts else None


@requires_stored("texts.negative")
def first_negative(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Return the first stored negative, that of the first negative picture; None if it is the caption itself."""
    return _text_at(annotation, 0)


@functools.cache
def nth(index: int) -> Callable[[Annotation, np.random.Generator], str | None]:
    """Return the rule that gives the stored negative number `index`, from 0, which belongs to that negative picture."""

    @requires_stored("texts.negative")
    def rule(annotation: Annotation, rng: np.random.Generator) -> str | None:
        return _text_at(annotation, index)

    rule.__name__ = f"negative_{index}"
    return rule


def _text_at(annotation: Annotation, index: int) -> str | None:
    texts = annotation.stored.get("negative", ())[index : index + 1]
    return texts[0] if texts and not word_edits.equal_ignoring_case(texts[0], annotation.text) else None

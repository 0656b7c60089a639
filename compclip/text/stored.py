"""Texts that others wrote, stored beside a caption: its negatives and its paraphrases."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from compclip.base.beside import beside_captions
from compclip.text import edits
from compclip.text.annotation import Annotation


@beside_captions("texts.negative")
def negative(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """One of the stored negatives, each with the same chance; None without one."""
    return _drawn(annotation, "negative", rng)


@beside_captions("texts.paraphrase")
def paraphrase(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """One of the stored paraphrases, each with the same chance; None without one."""
    return _drawn(annotation, "paraphrase", rng)


@beside_captions("texts.negative")
def first_negative(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """The first stored negative, which belongs to the first negative picture; None where it is the caption itself."""
    return _at(annotation, 0)


@functools.cache
def nth(place: int) -> Callable[[Annotation, np.random.Generator], str | None]:
    """The rule that gives the stored negative at a place, counted from 0; it belongs to that negative picture."""

    @beside_captions("texts.negative")
    def rule(annotation: Annotation, rng: np.random.Generator) -> str | None:
        return _at(annotation, place)

    rule.__name__ = f"negative_{place}"
    return rule


def _at(annotation: Annotation, place: int) -> str | None:
    found = annotation.stored.get("negative", ())[place : place + 1]
    return found[0] if found and not edits.same(found[0], annotation.text) else None


def _drawn(annotation: Annotation, kind: str, rng: np.random.Generator) -> str | None:
    others = [text for text in annotation.stored.get(kind, ()) if not edits.same(text, annotation.text)]
    return others[rng.integers(len(others))] if others else None

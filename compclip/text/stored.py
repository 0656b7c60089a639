"""Texts that others wrote, stored beside a caption: its negatives and its paraphrases."""

from __future__ import annotations

import numpy as np

from compclip.text import edits
from compclip.text.annotation import Annotation


def negative(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """One of the stored negatives, each with the same chance; None without one."""
    return _drawn(annotation, "negative", rng)


def paraphrase(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """One of the stored paraphrases, each with the same chance; None without one."""
    return _drawn(annotation, "paraphrase", rng)


def first_negative(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """The first stored negative, which belongs to the first negative picture; None where it is the caption itself."""
    first = next(iter(annotation.stored.get("negative", ())), annotation.text)
    return None if edits.same(first, annotation.text) else first


def _drawn(annotation: Annotation, kind: str, rng: np.random.Generator) -> str | None:
    others = [text for text in annotation.stored.get(kind, ()) if not edits.same(text, annotation.text)]
    return others[rng.integers(len(others))] if others else None

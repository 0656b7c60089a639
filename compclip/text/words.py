"""Sets of words, written as text."""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """Return the words of `text`, which white space separates."""
    return frozenset(text.split())

"""Sets of words, written as text."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of `text`, as white space parts them."""
    return frozenset(text.split())

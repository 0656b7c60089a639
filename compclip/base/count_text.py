"""Counted nouns in messages: "1 run", "2 runs", "12,000 pictures"."""

from __future__ import annotations


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Return the number with its noun, in the singular where it is one; `plural`: where it is more than an `s`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"

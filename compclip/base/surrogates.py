"""Halves of surrogate pairs: JSON can write them, and no file, database or tokenizer takes them."""

from __future__ import annotations

import re

LONE = re.compile("[\ud800-\udfff]")


def replace_lone(text: str) -> str:
    """Return `text` with U+FFFD, the replacement character, in place of each half."""
    return text if text.isascii() else LONE.sub("\ufffd", text)


def has_lone(text: str) -> bool:
    """Return whether `text` holds half a pair."""
    return not text.isascii() and bool(LONE.search(text))

"""Halves of surrogate pairs: JSON can write them, and no file, database or tokenizer takes them."""

from __future__ import annotations

import re

LONE = re.compile("[\ud800-\udfff]")


def repaired(text: str) -> str:
    """`text` with U+FFFD, the sign for a lost character, in place of each half."""
    return text if text.isascii() else LONE.sub("\ufffd", text)


def has(text: str) -> bool:
    """Whether there is one."""
    return not text.isascii() and bool(LONE.search(text))

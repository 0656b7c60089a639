"""Parse lists of texts that were written as one text, by JSON or as Python shows them."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable
from typing import Any

from compclip.base import json_text
from compclip.base.errors import UserError
from compclip.base.json_text import replace_lone

LONGEST_LITERAL = 1 << 16  # characters: Python's parser takes some hundred times as many bytes
LITERAL_ERRORS = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)  # documented for `literal_eval`


def parse_all(lists: Iterable[str]) -> list[str]:
    """Return the texts of several lists; an empty text is an empty list. Raises ValueError as `parse_texts`."""
    return [text for written in lists if written.strip() for text in parse_texts(written)]


def parse_texts(text: str) -> list[str]:
    """Return the texts of a list. Raises ValueError for what is no list of texts, or too long to parse as Python."""
    try:
        texts = json_text.parse_json(text, "")
    except UserError:
        texts = parse_literal(text)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("no list of texts")
    return [replace_lone(text) for text in texts]


def parse_literal(text: str) -> Any:
    """Return the value of a Python literal of bounded length; None for what is none."""
    if len(text) > LONGEST_LITERAL:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a backslash that Python would double
        try:
            return ast.literal_eval(text.strip())
        except LITERAL_ERRORS:
            return None

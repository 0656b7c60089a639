"""Lists of texts that were written into one text, by JSON or as Python shows them."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable
from typing import Any

from compclip.base import json_text
from compclip.base.errors import UserError
from compclip.base.surrogates import repaired

LONGEST = 1 << 16  # characters: Python's parser takes some hundred times as many bytes
FAULTS = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)  # of `literal_eval`, by its documentation


def all_texts(written: Iterable[str]) -> list[str]:
    """The texts of several lists, one after the other; an empty text is an empty list. Raises ValueError as `texts`."""
    return [text for one in written if one.strip() for text in texts(one)]


def texts(written: str) -> list[str]:
    """The texts of a list. Raises ValueError for what is no list of texts, or too long to be read as Python's."""
    found = _json(written)
    if found is None:
        found = _literal(written)
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ValueError("no list of texts")
    return [repaired(text) for text in found]


def _json(written: str) -> Any:
    try:
        return json_text.value(written, "")
    except UserError:
        return None


def _literal(written: str) -> Any:
    if len(written) > LONGEST:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a backslash that Python would write twice
        try:
            return ast.literal_eval(written.strip())
        except FAULTS:
            return None

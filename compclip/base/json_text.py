"""JSON from outside: a value, or one line that says why not; and texts without halves of surrogate pairs.

JSON can write such a half, and no file, database or tokenizer takes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError

LONE = re.compile("[\ud800-\udfff]")
FETCH = "fix or fetch the file again"


def parse_json(text: str, where: str, fix: str = FETCH, line: int = 0) -> Any:
    """Return the value of a JSON text; `line` is the line of its file, for a text of one line.

    Raises UserError naming `where`, the line and `fix` for what is no JSON, nested too deeply, or has a number of
    thousands of digits.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{where}: not JSON at line {line or error.lineno}: {error.msg}; {fix}") from error
    except RecursionError:
        fault = "nested too deeply"
    except ValueError:  # of int(): its time grows with the square of the digits
        fault = "has a number of thousands of digits"
    raise UserError(f"{where}: {f'line {line}: ' if line else ''}{fault}; {fix}")


def read_field(file: str | Path, record: str, row: Any, name: str, kind: type | tuple[type, ...] = str) -> Any:
    """Return field `name` of one record. Raises UserError where it is absent or of another kind."""
    if not isinstance(row, Mapping):
        raise UserError(f"{file}: record {record}: expected an object, not {type(row).__name__}; fetch the file again")
    if name not in row:
        raise UserError(f"{file}: record {record}: no field {name!r}; found {', '.join(row)}; fetch the official file")
    if not isinstance(row[name], kind):
        raise UserError(f"{file}: record {record}: field {name!r} is {row[name]!r}; fetch the official file")
    return row[name]


def replace_lone(text: str) -> str:
    """Return `text` with U+FFFD, the replacement character, in place of each half."""
    return text if text.isascii() else LONE.sub("\ufffd", text)


def has_lone(text: str) -> bool:
    """Return whether `text` holds half a pair."""
    return not text.isascii() and bool(LONE.search(text))

"""Read secrets from environment variables, whose names files and arguments give."""

from __future__ import annotations

import os
import re

from compclip.base import redact
from compclip.base.errors import UserError

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
NO_LINE = re.compile(r"[\x00-\x1f\x7f]")


def read_secret(variable: str) -> str:
    """Return the value of a variable, "" where it is not set; messages hide it from now on.

    Raises UserError naming the variable where it holds more than a line: a header, a URL and a command end with it.
    """
    value = os.environ.get(variable, "").strip()
    redact.remember_secret(value)
    if NO_LINE.search(value):
        raise UserError(f"${variable}: holds a line break or another control character; set it to one line")
    return value


def check_name(variable: str, where: str, example: str) -> None:
    """Raise UserError for what is no variable's name; it may be the secret itself, so that it is not shown."""
    if variable and not NAME.fullmatch(variable):
        raise UserError(f"{where}: names no environment variable; give one as {example}")

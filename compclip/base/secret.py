"""Secrets stand in environment variables, whose names files and arguments give; they are read here, at their use."""

from __future__ import annotations

import os
import re

from compclip.base import redact
from compclip.base.errors import UserError

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
NO_LINE = re.compile(r"[\x00-\x1f\x7f]")


def resolve(variable: str) -> str:
    """What a variable holds, "" where it is not set; from now on no message shows it.

    Raises UserError naming the variable where it holds more than a line: a header, a URL and a command end with it.
    """
    value = os.environ.get(variable, "").strip()
    redact.remember(value)
    if NO_LINE.search(value):
        raise UserError(f"${variable}: holds a line break or another control character; set it to one line")
    return value


def check_name(variable: str, where: str, example: str) -> None:
    """Raise UserError for what names no variable; it may be the secret itself and is not shown."""
    if variable and not NAME.fullmatch(variable):
        raise UserError(f"{where}: names no environment variable; give one as {example}")

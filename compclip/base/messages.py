"""Notes and warnings of a command, on stderr through Python's logger `compclip`; `-v` and `-q` say how many.

Results are printed on stdout and errors on stderr, whatever the level. COMPCLIP_LOG holds it (`debug`, `info` or
`error`), so that jobs and stages which a command starts have it too. Nothing is imported before the first message.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from compclip.base.errors import LEVEL_VARIABLE, one_line, unknown

if TYPE_CHECKING:
    from logging import Handler, Logger, LogRecord


LEVELS = ("debug", "info", "error")
NAMES = {"INFO": "note", "WARNING": "warning", "DEBUG": "detail", "ERROR": "error"}


def note(text: str) -> None:
    """Write a line that a user may like to know; not with `-q`."""
    _open_logger(_read_level()).info(text)


def warn(text: str) -> None:
    """Write a line about something that may be wrong; not with `-q`."""
    _open_logger(_read_level()).warning(text)


def _read_level() -> str:
    level = os.environ.get(LEVEL_VARIABLE) or "info"
    if level not in LEVELS:
        raise unknown("level", level, LEVELS, LEVEL_VARIABLE)
    return level


def _open_logger(level: str) -> Logger:
    """Return the logger with this level; it writes to stderr, unless a program that imports us has its own handler."""
    import logging

    logger = logging.getLogger("compclip")
    logger.setLevel(level.upper())
    logger.disabled = False  # as `fileConfig` of a library leaves every logger that was there before
    if not logger.handlers:
        logger.addHandler(_make_handler())
        logger.propagate = False
    return logger


@functools.cache
def _make_handler() -> Handler:
    import logging

    class Stderr(logging.Handler):
        """Writes `note: …` or `warning: …` to what stderr is at that moment."""

        def emit(self, record: LogRecord) -> None:
            """Write a line."""
            print(f"{NAMES[record.levelname]}: {one_line(record.getMessage())}", file=sys.stderr, flush=True)

    return Stderr()


# --- numbers as people read them ------------------------------------------------------------------------------------
# Numbers as a person reads them: "1 run", "12,000 pictures", and shares in percent.


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Return the number with its noun, in the singular where it is one; `plural`: where it is more than an `s`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def format_counts(counts: Mapping[str, Any]) -> str:
    """Return a stage's counts as 'records 420, images 60', without what is 0 or no number."""
    numbers = {name: value for name, value in counts.items() if isinstance(value, int) and value}
    return ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in numbers.items()) or "nothing to do"


def print_counts(counts: Mapping[str, Any]) -> None:
    """Print what a stage counted: a line on a terminal, else JSON."""
    print(format_counts(counts) if sys.stdout.isatty() else json.dumps(counts), flush=True)


def format_percent(share: float) -> str:
    """Return a share as '97.3 %', with more digits where these would say 0 or 100."""
    digits = 1 if 0.0005 <= share <= 0.9995 else 4
    return f"{100 * share:.{digits}f} %"


def format_share(share: float, is_cosine: bool = False) -> str:
    """Return a share in percent with two decimals; a cosine as it is, with four."""
    return f"{share:.4f}" if is_cosine else f"{100 * share:.2f}"

"""Notes and warnings of a command, on stderr through Python's logger `compclip`; `-v` and `-q` say how many.

Results are printed on stdout and errors on stderr, whatever the level. COMPCLIP_LOG holds it (`debug`, `info` or
`error`), so that jobs and stages which a command starts have it too. Nothing is imported before the first message.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from compclip.base.errors import unknown

if TYPE_CHECKING:
    from logging import Handler, Logger, LogRecord

VARIABLE = "COMPCLIP_LOG"
LEVELS = ("debug", "info", "error")
OPTIONS = {"-v": "debug", "--verbose": "debug", "-q": "error", "--quiet": "error"}
NAMES = {"INFO": "note", "WARNING": "warning", "DEBUG": "detail", "ERROR": "error"}


def note(text: str) -> None:
    """Write a line that a user may like to know; not with `-q`."""
    _open_logger(_read_level()).info(text)


def warn(text: str) -> None:
    """Write a line about something that may be wrong; not with `-q`."""
    _open_logger(_read_level()).warning(text)


def take_options(argv: Sequence[str]) -> list[str]:
    """Set the level that `-v` or `-q` asks for, the last one of several; return the other arguments.

    With `-v` the libraries' own messages are shown as well. What stands behind `--` is left alone.
    """
    end = argv.index("--") if "--" in argv else len(argv)
    options = [word for word in argv[:end] if word in OPTIONS]
    if options:
        os.environ[VARIABLE] = OPTIONS[options[-1]]
    if os.environ.get(VARIABLE) == "debug":
        import logging

        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    return [word for i, word in enumerate(argv) if i >= end or word not in OPTIONS]


def _read_level() -> str:
    level = os.environ.get(VARIABLE) or "info"
    if level not in LEVELS:
        raise unknown("level", level, LEVELS, VARIABLE)
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
            print(f"{NAMES[record.levelname]}: {record.getMessage()}", file=sys.stderr, flush=True)

    return Stderr()

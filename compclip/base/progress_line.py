"""How far something is and about how long it takes yet, on stderr: a line that is redrawn, in a log one every 30 s.

What takes less than a second on a terminal, or less than half a minute in a log, says nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeVar

T = TypeVar("T")
TERMINAL_S, LOG_S = 1.0, 30.0  # seconds between two lines
CLEAR = "\r\033[K"


class ProgressLine:
    """Counts what is done of `total` (0: not known) and shows it; threads may count at once."""

    def __init__(self, what: str, total: int, stream: TextIO, clock: Callable[[], float]) -> None:
        self.what, self.total, self.stream, self.clock = what, total, stream, clock
        self.done, self.is_drawn = 0, False
        self.is_terminal = stream.isatty()
        self.shown_at, self.first = clock(), (0.0, 0)  # when the first ones were done, and how many these were
        self.lock = threading.Lock()

    def advance(self, count: int = 1) -> None:
        """Count some more, and show all where a line is due."""
        with self.lock:
            now = self.clock()
            self.done += count
            if self.done == count:
                self.first = now, count
            if now - self.shown_at >= (TERMINAL_S if self.is_terminal else LOG_S):
                self.shown_at, self.is_drawn = now, True
                text = self.describe(now)
                print(f"{CLEAR}{text}" if self.is_terminal else text, end="" if self.is_terminal else "\n",
                      file=self.stream, flush=True)  # fmt: skip

    def describe(self, now: float) -> str:
        """Return the line: what, how many of how many, and the time left by the rate since the first ones."""
        first_at, first_count = self.first
        text = f"{self.what} {self.done:,}" + (f"/{self.total:,}" if self.total else "")
        if self.done > first_count and self.total:
            seconds = (self.total - self.done) * (now - first_at) / (self.done - first_count)
            text += f"  ETA {format_seconds(seconds)}"
        return text

    def close(self) -> None:
        """Remove the line from a terminal."""
        if self.is_drawn and self.is_terminal:
            print(CLEAR, end="", file=self.stream, flush=True)


@contextmanager
def show_progress(
    what: str, total: int = 0, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[ProgressLine]:
    """Give the progress of so many things, shown while the block runs."""
    progress = ProgressLine(what, total, stream or sys.stderr, clock)
    try:
        yield progress
    finally:
        progress.close()


def iterate(what: str, values: Iterable[T], total: int) -> Iterator[T]:
    """Yield values; each counts as done when the next is asked for."""
    with show_progress(what, total) as progress:
        for value in values:
            yield value
            progress.advance()


def format_seconds(seconds: float) -> str:
    """Return a duration in the unit that a person would say it in."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

"""How far something is and about how long it takes yet, on stderr: a line that is redrawn, in a log one every 10 s.

What takes less than a second on a terminal, or less than ten seconds in a log, says nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tqdm import tqdm

# seconds between two lines
TERMINAL_S = 1.0
LOG_S = 10.0


class ProgressLine(tqdm):
    """tqdm with whole lines in a log; threads may count at once. A `total` of 0 is not known."""

    monitor_interval = 0  # no thread of its own: a line is due only where something was done

    def __init__(self, what: str, total: int = 0, values: Iterable | None = None) -> None:
        self.is_terminal = sys.stderr.isatty()
        seconds = TERMINAL_S if self.is_terminal else LOG_S
        shown = {"leave": False, "delay": seconds, "mininterval": seconds, "miniters": 1, "dynamic_ncols": True}
        super().__init__(values, what, total or None, **shown)

    def update(self, n: float | None = 1) -> bool | None:
        """Count some more, and show all where a line is due."""
        with self.get_lock():
            return super().update(n)

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Draw the line; an empty `msg` removes it from a terminal."""
        if self.is_terminal:
            return bool(super().display(msg, pos))
        if msg is None:
            print(self, file=sys.stderr, flush=True)
        return False

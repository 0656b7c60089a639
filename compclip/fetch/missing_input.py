"""Something that a grid reads and that is not there."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class MissingInput:
    """A path, or the name of weights, a server or a variable: its key in params.yaml, and how to get it.

    `advice`: what to do, where no entry of the catalogue (`offers`) brings it, or besides that. `more`: the number of
    further paths of the key that are missing.
    """

    key: str
    path: str
    advice: str = ""
    fault: str = "missing"
    offers: tuple[str, ...] = ()
    more: int = 0

    def describe(self) -> str:
        """Say in one line what is missing and what brings it."""
        path = f"{self.path} and {self.more} more" if self.more else self.path
        return f"{': '.join(filter(None, (self.key, path, self.fault)))}; {self.fix}"

    @property
    def fix(self) -> str:
        """What brings it, or what to correct."""
        command = f"`compclip fetch {' '.join(self.offers)}`" if self.offers else ""
        return ", ".join(filter(None, (command, self.advice)))


def is_there(path: str) -> bool:
    """Return whether there is a file, or a folder with more in it than what a download that was cut left."""
    if not os.path.isdir(path):
        return os.path.exists(path)
    try:
        with os.scandir(path) as entries:
            return any(not entry.name.startswith(".") for entry in entries)
    except OSError:  # it is there, and whoever reads it says what is wrong
        return True

"""Where a picture is."""

from __future__ import annotations

from dataclasses import dataclass

MAX_BYTES = 1 << 28  # of a picture within an archive, which is read whole


@dataclass(frozen=True, slots=True)
class Place:
    """A file, or `length` bytes of one from `offset` on, as a tar holds a picture."""

    path: str
    offset: int = 0
    length: int = 0

    def __str__(self) -> str:
        return f"{self.path}@{self.offset}" if self.length else self.path

"""A place of the grid by its names.

A named tuple and no dataclass, as are the files of a run: who collects a finished method needs nothing else, and the
import of dataclasses takes as long as Python's own start.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from compclip.base.errors import UserError
from compclip.base.names import Name

PRETRAINED = "pretrained"  # the method that trains nothing: the backbone as it is
LONGEST = 200  # bytes of a cell's name: files are called by it, with endings and marks of their own


class _Names(NamedTuple):
    method: Name
    backbone: Name
    data: Name
    seed: int


class Cell(_Names):
    """One place of the grid. Raises UserError for what cannot name one, or is too long together."""

    __slots__ = ()

    def __new__(cls, method: str, backbone: str, data: str, seed: int) -> Self:
        made = super().__new__(cls, Name(method, "method"), Name(backbone, "backbone"), Name(data, "data"), seed)
        if len(made.name.encode()) > LONGEST:
            raise UserError(f"cell {made.name}: has more than {LONGEST} bytes; shorten the names of the grid")
        return made

    @property
    def name(self) -> str:
        """method-backbone-data-seed."""
        return f"{self.method}-{self.backbone}-{self.data}-{self.seed}"

    @property
    def place(self) -> str:
        """method/backbone-data-seed: its folder below runs/ and results/."""
        return f"{self.method}/{self.backbone}-{self.data}-{self.seed}"

    @property
    def plain(self) -> dict[str, Any]:
        """As a mapping, for files."""
        return self._asdict()

"""Define a cell of the grid: its method, backbone, data set and seed, and the names made from them."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from compclip.base.errors import UserError
from compclip.base.safe_names import SafeName

PRETRAINED = "pretrained"  # the method that trains nothing: the backbone as it is
LONGEST = 200  # bytes of a cell's name, which becomes part of file names


class _Names(NamedTuple):
    method: SafeName
    backbone: SafeName
    data: SafeName
    seed: int


class Cell(_Names):
    """One cell of the grid. Raises UserError if a part is not a valid name, or if the whole name is too long."""

    __slots__ = ()

    def __new__(cls, method: str, backbone: str, data: str, seed: int) -> Self:
        cell = super().__new__(
            cls, SafeName(method, "method"), SafeName(backbone, "backbone"), SafeName(data, "data"), seed
        )
        if len(cell.name.encode()) > LONGEST:
            raise UserError(f"cell {cell.name}: its name has more than {LONGEST} bytes; shorten the names of the grid")
        return cell

    @property
    def name(self) -> str:
        """The cell's name: method-backbone-data-seed."""
        return f"{self.method}-{self.backbone}-{self.data}-{self.seed}"

    @property
    def folder(self) -> str:
        """The cell's folder below runs/ and results/: method/backbone-data-seed."""
        return f"{self.method}/{self.backbone}-{self.data}-{self.seed}"

    @property
    def plain(self) -> dict[str, Any]:
        """The cell as plain values, for files."""
        return {name: str(value) if isinstance(value, SafeName) else value for name, value in self._asdict().items()}

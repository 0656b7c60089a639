"""Where the checkpoint of a cell of the grid lies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from compclip.base.errors import UserError
from compclip.runs.folder import Published

if TYPE_CHECKING:
    from compclip.config.sections import Cell

PRETRAINED = "pretrained"


def pretrained(cell: Cell, root: Path) -> Path:
    """The backbone of a cell. Raises UserError where it was not made yet."""
    return _made(root / "models" / cell.backbone, f"backbone@{cell.backbone}")


def checkpoint(cell: Cell, root: Path) -> Path:
    """A cell's own checkpoint, or for the method `pretrained` the backbone until it is published.

    Raises UserError where it was not made yet.
    """
    own = Published(root, cell).trained.checkpoint
    if cell.method == PRETRAINED and not own.exists():
        return pretrained(cell, root)
    return _made(own, f"train@{cell.method}")


def _made(path: Path, stage: str) -> Path:
    if not path.exists():
        raise UserError(f"{path}: not there; run `dvc repro {stage}` first")
    return path

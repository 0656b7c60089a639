"""The backbone as it is: the row that all others are compared with. Nothing is trained."""

from __future__ import annotations

from dataclasses import dataclass

TRAINS = False


@dataclass(frozen=True)
class Config:
    """Nothing to choose."""

"""The backbone as it is, without training: the row that all others are compared with."""

from __future__ import annotations

from dataclasses import dataclass

TRAINS = False


@dataclass(frozen=True)
class Config:
    """No parameters."""

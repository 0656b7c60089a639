"""A sample: one picture and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """A picture by path, its captions, and its size in pixels as shown."""

    id: str
    image: str
    captions: tuple[str, ...]
    split: str = "train"
    width: int = 0
    height: int = 0

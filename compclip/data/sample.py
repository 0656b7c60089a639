"""A sample: one picture and what is said about it; and where a data set's samples come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass(frozen=True)
class Sample:
    """A picture by path, its captions, and its size in pixels as shown."""

    id: str
    image: str
    captions: tuple[str, ...]
    split: str = "train"
    width: int = 0
    height: int = 0


@dataclass(frozen=True)
class Data:
    """A section of `data` in params.yaml: which source reads the set, from where, and who captions it."""

    source: str = MISSING
    path: str = MISSING
    images: str = MISSING
    split: str = "train"
    captioner: str = MISSING  # dvc.yaml reads it, so that it has no default; "none" keeps the captions
    options: dict[str, Any] = field(default_factory=dict)  # the captioner's own parameters
    rewriter: dict[str, Any] = field(default_factory=dict)  # endpoint that writes hard positives; none where empty
    limit: int = 0  # 0: all
    min_sentences: int = 0  # of 4 to 34 words in all captions of a picture, which is left out below (CLIC B.1)

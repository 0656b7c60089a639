"""The captions that the data came with, behind the same words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compclip.config.sections import Data
    from compclip.data.sample import Sample


@dataclass(frozen=True)
class Config:
    """What stands before every caption."""

    words: str = "a photo:"


def caption(samples: list[Sample], data: Data, cfg: Config) -> tuple[list[Sample], Counter]:
    """The samples with longer captions."""
    longer = [replace(s, captions=tuple(f"{cfg.words} {c}" for c in s.captions)) for s in samples]
    return longer, Counter(prefixed=sum(len(s.captions) for s in longer))

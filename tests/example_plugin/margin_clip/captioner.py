"""The captions that the data came with, behind the same words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compclip.config.sections import Data
    from compclip.data.sample import Sample
    from compclip.prepare.captioners import Caption


@dataclass(frozen=True)
class Config:
    """What is before every caption."""

    words: str = "a photo:"


@contextmanager
def opened(data: Data, cfg: Config) -> Iterator[Caption]:
    """A captioner that knows the words."""
    yield lambda samples, shard: _longer(samples, cfg.words)


def _longer(samples: list[Sample], words: str) -> tuple[list[Sample], Counter]:
    longer = [replace(s, captions=tuple(f"{words} {c}" for c in s.captions)) for s in samples]
    return longer, Counter(prefixed=sum(len(s.captions) for s in longer))

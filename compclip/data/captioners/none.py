"""Keep the captions that the data came with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from compclip.data.captioners import Caption
from compclip.data.sample import Sample

if TYPE_CHECKING:
    from compclip.config.sections import Data


@contextmanager
def opened(data: Data, cfg: Any) -> Iterator[Caption]:
    """A captioner that gives the samples unchanged."""
    yield _kept


def _kept(samples: list[Sample], shard: str) -> tuple[list[Sample], Counter]:
    return samples, Counter()

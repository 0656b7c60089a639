"""Keep the captions that the data came with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from compclip.config.sections import Data
from compclip.prepare.captioners import Caption

SIDE_BY_SIDE = True


@contextmanager
def opened(data: Data, cfg: None) -> Iterator[Caption]:
    """Give a captioner that returns the samples unchanged."""
    yield lambda samples, shard: (samples, Counter())

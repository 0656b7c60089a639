"""Keep the captions that the data came with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from compclip.data.captioners import Caption

SIDE_BY_SIDE = True


@contextmanager
def opened(data, cfg) -> Iterator[Caption]:
    """The samples unchanged."""
    yield lambda samples, shard: (samples, Counter())

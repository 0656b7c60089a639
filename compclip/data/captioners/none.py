"""Keep the captions that the data came with."""

from __future__ import annotations

from collections import Counter

from compclip.data.sample import Sample


def caption(samples: list[Sample], data, cfg) -> tuple[list[Sample], Counter]:
    """The samples unchanged."""
    return samples, Counter()

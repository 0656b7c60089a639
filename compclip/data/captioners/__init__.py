"""Captioners, one file each: `opened(data, cfg)`, a context manager that gives a `Caption`.

It is opened once for all shards that a process captions, so that a model is loaded once, and called once a shard, with
the shard's name. A captioner with parameters of its own has a frozen dataclass `Config`, filled from
`data.<name>.options`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from compclip.data.sample import Sample

# The samples of a shard and its name, to the samples with their new captions, in the same order, and counts.
Caption = Callable[[list[Sample], str], tuple[list[Sample], Counter]]

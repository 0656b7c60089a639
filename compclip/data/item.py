"""What a stage over shards is made of: its items, one a shard, and what is said of one that is made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Item:
    """A shard that a stage makes: its name, the key of its content, and what it is made of."""

    name: str
    key: str
    given: dict[str, Any]

    @classmethod
    def of(cls, name: str, given: dict[str, Any], decided_by: dict[str, Any]) -> Item:
        """`decided_by` is all that the shard's content depends on."""
        return cls(name, hashlib.sha256(json.dumps(decided_by, sort_keys=True).encode()).hexdigest()[:32], given)


@dataclass(frozen=True)
class Made:
    """A shard that was written: how many samples and captions it has, and what was counted on the way."""

    samples: int
    captions: int
    counts: dict[str, float] = field(default_factory=dict)


Make = Callable[[Item, Path], Made]

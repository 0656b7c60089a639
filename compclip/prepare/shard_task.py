"""Describe the shards that a stage writes, and what it counted while it wrote one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ShardTask:
    """A shard to write: its name, a hash of all that decides its content, and the inputs that its writer needs."""

    name: str
    key: str
    inputs: dict[str, Any]

    @classmethod
    def create(cls, name: str, inputs: dict[str, Any], decided_by: dict[str, Any]) -> ShardTask:
        """Return the task of a shard whose content depends on `decided_by` alone."""
        return cls(name, hashlib.sha256(json.dumps(decided_by, sort_keys=True).encode()).hexdigest()[:32], inputs)


@dataclass(frozen=True)
class ShardResult:
    """A shard that was written: its numbers of samples and captions, and what was counted."""

    samples: int
    captions: int
    counts: dict[str, float] = field(default_factory=dict)


WriteShard = Callable[[ShardTask, Path], ShardResult]

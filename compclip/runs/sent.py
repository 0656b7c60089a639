"""What is sent as a job: a run, or a task of shards."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from compclip.runs import run_store, shard_tasks
from compclip.runs.run_folder import RunFolder


class Sent(Protocol):
    """A run or a task, as whoever sends it sees it."""

    @property
    def key(self) -> str:
        """What its job is told."""

    @property
    def folder(self) -> RunFolder:
        """Where its job works."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    @property
    def threads(self) -> int:
        """What it computes with."""


def folder_of(key: str, root: Path = Path(".")) -> RunFolder:
    """Where the job works that is told a key. Raises UserError for a key that is none."""
    return shard_tasks.folder(key, root) if shard_tasks.is_key(key) else run_store.find_folder(key, root)

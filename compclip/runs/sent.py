"""What is sent as a job: a run, or a task of shards."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from compclip.runs import store, tasks
from compclip.runs.folder import Folder


class Sent(Protocol):
    """A run or a task, as whoever sends it sees it."""

    @property
    def key(self) -> str:
        """What its job is told."""

    @property
    def folder(self) -> Folder:
        """Where its job works."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    @property
    def threads(self) -> int:
        """What it computes with."""


def folder_of(key: str, root: Path = Path(".")) -> Folder:
    """Where the job works that is told a key. Raises UserError for a key that is none."""
    return tasks.folder(key, root) if tasks.is_key(key) else store.folder(key, root)

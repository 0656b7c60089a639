"""The memory that processes of one machine share, by which workers pass batches."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path("/dev/shm")


def measure_free() -> int | None:
    """Return the free bytes; None where a system has no such folder, and shared memory bounds nothing."""
    if not FOLDER.is_dir():
        return None
    room = os.statvfs(FOLDER)
    return room.f_bavail * room.f_frsize

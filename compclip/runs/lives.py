"""How long a run was worked on: a file for each process that held it, whose age when it was last touched is its life.

A killed process leaves its file as it was touched last: no more than one heartbeat is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import uuid
from pathlib import Path

from compclip.base.files import write_json
from compclip.runs.folder import Folder


def begin(folder: Folder, devices: int) -> Path:
    """Note that a process begins to work, on so many devices."""
    path = folder.lives / f"{uuid.uuid4().hex}.json"
    folder.lives.mkdir(parents=True, exist_ok=True)
    path.touch()
    started = path.stat().st_mtime  # the file system's clock, as the end will be
    write_json(path, {"started": started, "devices": devices, "host": socket.gethostname(), "pid": os.getpid()})
    return path


def touch(path: Path) -> None:
    """It still lives."""
    with contextlib.suppress(OSError):
        os.utime(path)


def device_seconds(folder: Folder) -> float:
    """Seconds x devices over all lives of a run, requeued and killed ones counted."""
    total = 0.0
    for path in folder.lives.glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):  # one that is being written
            life = json.loads(path.read_text(encoding="utf-8"))
            total += max(0.0, path.stat().st_mtime - life["started"]) * life["devices"]
    return round(total, 3)

"""How long a run was worked on: a file for each process that held it, whose age when it was last touched is its life.

A killed process leaves its file as it was touched last: no more than one heartbeat is lost. A process that comes to an
end writes its seconds down, so that a copy of the folder knows them too.
"""

from __future__ import annotations

import contextlib
import os
import socket
import uuid
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import read_mapping, write_json
from compclip.base.shared_folders import make_folder
from compclip.runs.run_folder import RunFolder

DAMAGED = (UserError, ValueError, KeyError, TypeError, OverflowError)  # of a file that is not what we wrote


def begin_life(folder: RunFolder, devices: int) -> Path:
    """Write a file that says a process began to work on so many devices; return its path."""
    path = folder.lives / f"{uuid.uuid4().hex}.json"
    make_folder(folder.lives)
    path.touch(exist_ok=False)
    started = path.stat().st_mtime  # the file system's clock, as the end will be
    project = str(Path.cwd())  # jobs, too, work in their project's root
    write_json(path, {"started": started, "devices": devices, "project": project, **_process()})
    return path


def _process() -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": os.getpid()}


def touch_life(path: Path) -> None:
    """Touch the file: the process still works."""
    with contextlib.suppress(OSError):
        os.utime(path, follow_symlinks=False)


def end_life(path: Path) -> None:
    """Write the seconds that the process worked."""
    touch_life(path)
    with contextlib.suppress(OSError, *DAMAGED):  # the work is done: this must not undo it
        life = read_mapping(path)
        write_json(path, {**life, "seconds": _seconds(path, life)})


def sum_device_seconds(folder: RunFolder) -> float:
    """Sum seconds x devices over all processes of a run, killed and requeued ones and this one included."""
    total = 0.0
    for path in folder.lives.glob("*.json"):
        with contextlib.suppress(OSError, *DAMAGED):  # one that is being written
            life = read_mapping(path)
            if "seconds" not in life and _process().items() <= life.items():
                touch_life(path)
            total += _seconds(path, life) * life["devices"]
    return round(total, 3)


def _seconds(path: Path, life: dict[str, Any]) -> float:
    return life["seconds"] if "seconds" in life else max(0.0, path.stat().st_mtime - life["started"])


def read_device_seconds(folder: RunFolder) -> float:
    """Return the same, or what environment.json says where the finished run was adopted from published files."""
    lived = sum_device_seconds(folder)
    if lived or not folder.finished:
        return lived
    with contextlib.suppress(*DAMAGED):
        return float(folder.final.facts().get("device_seconds", 0.0))
    return 0.0

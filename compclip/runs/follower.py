"""Start `compclip track --follow` beside a driver: MLflow then shows the runs while they run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from compclip.base import environment_variables
from compclip.base.errors import UserError
from compclip.base.shared_folders import open_plain

VARIABLE = "COMPCLIP_TRACK"
FOLLOW = "follow"
LOG = Path(".work/track.log")


def is_wanted() -> bool:
    """Return whether COMPCLIP_TRACK asks for it. Raises UserError for another word."""
    value = os.environ.get(VARIABLE, "")
    if value not in ("", FOLLOW):
        raise UserError(f"{VARIABLE}={value!r}: must be {FOLLOW!r}, or not set")
    return value == FOLLOW


def start_follower(params: str | Path, root: Path = Path()) -> int:
    """Start the follower as a process of its own, which ends when nothing runs and this process is gone.

    Returns its number. It writes to .work/track.log. One that runs already goes on, and the new one waits for its turn.
    """
    log = root / LOG
    log.parent.mkdir(parents=True, exist_ok=True)
    words = ["-m", "compclip.track", "--follow", "--beside", str(os.getpid()), "--params", str(params)]
    with open_plain(log, "ab") as file:
        environment = environment_variables.without_place(os.environ)
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    print(f"MLflow follows: process {process.pid}, {LOG}", flush=True)
    return process.pid

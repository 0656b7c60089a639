"""A job that tests hold at a place: `python -m tests.held_job KEY` is compclip.launch.results_job, but waits for a file `go`.

The place is step number $HELD_STEP: the file `held` appears when it is reached. A second start is not held again.
With HELD_UNTIL=signal the job waits for a signal instead; with HELD_JOB=MODULE it is the job of that module.
"""

import importlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

from compclip.base.errors import entry
from compclip.runs import jobs
from compclip.train import checkpoint, optimiser


def join_writers() -> None:
    """Wait until the checkpoints that were handed over are on disk."""
    for thread in threading.enumerate():
        if thread.name == checkpoint.THREAD:
            thread.join()


def hold() -> None:
    """Say so, with all checkpoints on disk, and wait; a signal that comes between the two counts."""
    join_writers()
    signal_reader, signal_writer = os.pipe()
    os.set_blocking(signal_writer, False)
    signal.set_wakeup_fd(signal_writer, warn_on_full_buffer=False)
    Path("held").touch()
    if os.environ.get("HELD_UNTIL") == "signal":
        os.read(signal_reader, 1)
    while not (os.environ.get("HELD_UNTIL") or Path("go").exists()):
        time.sleep(0.02)


if __name__ == "__main__":
    original = optimiser.learning_rate

    def held_learning_rate(step: int, steps: int, cfg) -> float:
        """The learning rate, after the wait."""
        if step == int(os.environ.get("HELD_STEP", "3")) and not Path("held").exists():
            hold()
        return original(step, steps, cfg)

    optimiser.learning_rate = held_learning_rate
    sys.exit(entry(importlib.import_module(os.environ.get("HELD_JOB", jobs.SCORES)).main))

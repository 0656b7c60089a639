"""A job that tests hold at a place: `python -m tests.held_job KEY` is compclip.job, but waits there for a file `go`.

The place is step number $HELD_STEP: the file `held` appears when it is reached. A second start is not held again.
With HELD_UNTIL=signal the job waits for a signal instead.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from compclip.base.errors import entry
from compclip.launch import job
from compclip.train import optimiser

if __name__ == "__main__":
    original = optimiser.learning_rate

    def held(step: int, steps: int, cfg) -> float:
        """The learning rate, after the wait."""
        if step == int(os.environ.get("HELD_STEP", "3")) and not Path("held").exists():
            Path("held").touch()
            if os.environ.get("HELD_UNTIL") == "signal":
                signal.pause()
            while not (os.environ.get("HELD_UNTIL") or Path("go").exists()):
                time.sleep(0.02)
        return original(step, steps, cfg)

    optimiser.learning_rate = held
    sys.exit(entry(job.main))

"""One of two processes of a run, of which the other gets lost: `python -m tests.lost_process collective|alone`."""

from __future__ import annotations

import sys
import threading

from compclip.train import distributed, liveness

if __name__ == "__main__":
    liveness.BEAT_S, liveness.PATIENCE_BEATS = 0.1, 40
    with distributed.session() as here:
        distributed.of_all(here.rank)  # both are there
        print("connected", flush=True)
        if sys.stdin.readline().strip() == "collective":
            distributed.of_all(here.rank)
        threading.Event().wait()

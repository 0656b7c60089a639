"""One of two processes of a run, of which the other gets lost: `python -m tests.lost_process collective|alone`."""

from __future__ import annotations

import sys
import threading

from compclip.train import distributed, process_group

if __name__ == "__main__":
    process_group.BEAT_S, process_group.PATIENCE_BEATS = 0.1, 40
    with process_group.session() as here:
        distributed.gather_objects(here.rank)  # both are there
        print("connected", flush=True)
        if sys.stdin.readline().strip() == "collective":
            distributed.gather_objects(here.rank)
        threading.Event().wait()

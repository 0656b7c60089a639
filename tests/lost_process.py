"""One of two processes of a run, of which the other gets lost: `python -m tests.lost_process collective|alone|failing`."""

import sys
import threading

from compclip.base.errors import UserError, entry
from compclip.train import distributed, process_group


def main(_argv: list[str]) -> int:
    """Connect, say so, and do what the first line of the input asks for."""
    # beats are short, what waits for one to be heard is not: the other process may get no core for half a second
    process_group.BEAT_S, process_group.PATIENCE_BEATS, process_group.HEARING_BEATS = 0.1, 40, 300
    with process_group.session() as here:
        distributed.gather_objects(here.rank)  # both are there
        print("connected", flush=True)
        work = sys.stdin.readline().strip()
        if work == "failing":
            raise UserError("train.lr=1: too high; lower it")
        if work == "collective":
            distributed.gather_objects(here.rank)
        threading.Event().wait()


if __name__ == "__main__":
    sys.exit(entry(main))

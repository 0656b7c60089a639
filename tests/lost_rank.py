"""A process of a job of which the second one fails while the first waits: `python -m tests.lost_rank KEY`."""

import sys
import time

from compclip.train import process_group

if __name__ == "__main__":
    if process_group.read_process().rank:
        sys.exit("error: no room for process 1")
    time.sleep(600)

"""Says which task of a job a process is: `python -m tests.ranks KEY`."""

import sys

from compclip.train import process_group

if __name__ == "__main__":
    here = process_group.read_process()
    print(f"{sys.argv[1]}: rank {here.rank} of {here.world}, local {here.local_rank}")

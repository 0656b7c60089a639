"""One run from its backbone to its checkpoint, in a process of its own: `python -m compclip.train.job KEY`.

Reads run.yaml in the run's folder of the store, where whoever sent it wrote it. Killed, the same command goes on from
the last complete checkpoint. The code is whatever `compclip` this process imports.
"""

from __future__ import annotations

import sys

from compclip.base.errors import UserError, entry
from compclip.runs import lock, run_store
from compclip.runs.progress import Follower
from compclip.runs.run_store import StoredRun
from compclip.train import finish, process_group


def hold_and_complete(run: StoredRun) -> None:
    """Train a run unless it is finished; of several processes the first one holds the lock."""
    with process_group.session() as here:
        if here.rank:
            finish.complete_run(run)
            return
        with lock.hold(run.folder, Follower(run), here.world):
            finish.complete_run(run)


def parse_key(argv: list[str]) -> str:
    """Return the only argument of a job. Raises UserError for more, or for none."""
    if len(argv) != 1:
        raise UserError(f"job: {len(argv)} arguments; give one run key, whose folder is in the store")
    return argv[0]


def main(argv: list[str]) -> int:
    """Train one run, up to its checkpoint."""
    hold_and_complete(run_store.load_sent_run(parse_key(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

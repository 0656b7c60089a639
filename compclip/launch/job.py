"""One run from training to results, in a process of its own: `python -m compclip.launch.job KEY`.

Reads run.yaml, params.yaml and, where a sweep's pruner is to look at it, rungs.json in the run's folder of the store;
trains, scores the model at the rungs into intermediate.jsonl, and ends with scores/. It holds the run's lock
throughout: a second process with this key waits and then finds everything there. Killed, the same command goes on from
the last checkpoint. The code is whatever `compclip` this process imports: on a cluster, the copy made at submission.
"""

from __future__ import annotations

import sys

from compclip.base.errors import entry
from compclip.config import read
from compclip.config.sections import Params
from compclip.evaluate import cells, kept, rungs
from compclip.runs import lock, store
from compclip.runs.progress import Follower
from compclip.runs.store import StoredRun
from compclip.train import distributed
from compclip.train import finish as training
from compclip.train.job import key_of
from compclip.train.loop import nothing


def finish(params: Params, stored: StoredRun) -> None:
    """Train unless the run is finished, then score it unless it is scored.

    Of several processes the first holds the lock and scores.
    """
    on_step = rungs.Rungs.of(stored.folder, params) if stored.folder.rungs.is_file() else nothing
    with distributed.session() as here:
        if here.rank:
            training.complete(stored, on_step)
            return
        with lock.hold(stored.folder, Follower(stored), here.world):
            training.complete(stored, on_step)
            kept.mark(stored.folder, cells.score(stored.folder, kept.task(params, stored.root)))


def main(argv: list[str]) -> int:
    """Bring one run to its results."""
    stored = store.sent(key_of(argv))
    finish(read.load(stored.folder.params), stored)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

"""One run from training to results, in a process of its own: `python -m compclip.launch.results_job KEY`.

Reads run.yaml, params.yaml and, where a sweep's pruner is to look at it, rungs.json in the run's folder of the store;
trains, scores the model at the rungs into intermediate.jsonl, and ends with scores/, also of its snapshots. It holds
the run's lock throughout: a second process with this key waits and then finds everything there. Killed, the same
command goes on from the last checkpoint. The code is whatever `compclip` this process imports: on a cluster, the copy
made at submission.
"""

from __future__ import annotations

import sys

from compclip.base.errors import entry
from compclip.config import read
from compclip.config.sections import Params
from compclip.evaluate import result_store, score
from compclip.runs import lock, run_store
from compclip.runs.progress import Follower
from compclip.runs.run_store import StoredRun
from compclip.train import job, process_group
from compclip.train.recorder import do_nothing


def train_and_score(params: Params, run: StoredRun) -> None:
    """Train unless the run is finished, then score it unless it is scored.

    Of several processes the first holds the lock and scores.
    """
    on_step = score.Rungs.load(run.folder, params) if run.folder.rungs.is_file() else do_nothing
    with process_group.session() as here:
        if here.rank:
            job.complete_run(run, on_step)
            return
        with lock.hold(run.folder, Follower(run), here.world):
            job.complete_run(run, on_step)
            task = result_store.task_from_params(params, run.root)
            result_store.mark_scored(run.folder, result_store.score_run(run.folder, task, run.shares))


def main(argv: list[str]) -> int:
    """Bring one run to its results."""
    run = run_store.load_sent_run(job.parse_key(argv))
    train_and_score(read.load_params(run.folder.params), run)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

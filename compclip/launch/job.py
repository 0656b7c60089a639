"""One run from training to results, in a process of its own: `python -m compclip.launch.job KEY`.

Reads run.yaml, params.yaml and, where a sweep's pruner is to look at it, rungs.json in .work/KEY/; trains, scores the
model at the rungs into intermediate.jsonl, and ends with final/results/. It holds the run key's lock throughout: a
second process with this key waits and then finds everything there. Killed, the same command goes on from the last
checkpoint. The code is whatever `compclip` this process imports: on a cluster, the copy made at submission.
"""

from __future__ import annotations

import sys
from pathlib import Path

from compclip.base.errors import UserError, entry
from compclip.config import read
from compclip.config.sections import Params
from compclip.evaluate import rungs, score
from compclip.runs.progress import Follower
from compclip.runs.publish import Publisher
from compclip.train import distributed
from compclip.train import finish as train_finish


def finish(params: Params, publisher: Publisher) -> None:
    """Train unless the run key is finished, then score it unless it is scored.

    Of several processes the first holds the lock and scores.
    """
    watched = (publisher.work / rungs.FILE).is_file()
    rows = rungs.watched(params, publisher) if watched else train_finish.plain_rows
    with distributed.session() as here:
        if here.rank:
            train_finish.complete(publisher, rows)
            return
        with publisher.lock(Follower(publisher.work, publisher.run)):
            train_finish.complete(publisher, rows)
            _score(params, publisher)


def scored(params: Params, publisher: Publisher) -> bool:
    """Whether a run is finished and has the results that an evaluation would give now."""
    final = publisher.work / "final"
    return publisher.finished() and score.kept(task(params, final / "checkpoint"), final) is not None


def task(params: Params, checkpoint: Path) -> score.Job:
    """The evaluation of a checkpoint as the parameters have it."""
    benchmarks, module_of = score.load_benchmarks(params, params.evaluate.benchmarks)
    asked, device = params.evaluate, distributed.device()
    return score.Job(str(checkpoint), benchmarks, module_of, asked.batch_size, asked.threads, device=device)


def _score(params: Params, publisher: Publisher) -> None:
    final = publisher.work / "final"
    asked = task(params, final / "checkpoint")
    if score.kept(asked, final) is not None:
        return
    documents = score.run(asked)
    for line in score.warnings(documents):
        print(line, file=sys.stderr)
    score.keep(asked, documents, final)


def main(argv: list[str]) -> int:
    """Bring one run key to its results."""
    if len(argv) != 1:
        raise UserError(f"job: {len(argv)} arguments; give one run key, whose folder is in .work")
    work = Path(".work") / argv[0]
    publisher = Publisher.of_run(read.from_yaml(work / "run.yaml"))
    if publisher.key != argv[0]:
        raise UserError(
            f"{work}: code or data changed since it was submitted (its key is now {publisher.key}); "
            "undo that, or launch again"
        )
    finish(read.load(work / "params.yaml"), publisher)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

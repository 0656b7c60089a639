"""Train one cell of the grid: `python -m compclip.train --cell fsc_clip-scenes-scenes-0`.

Reads params.yaml, the annotated data and the backbone's checkpoint; works in .work/<run key>/ and, when done, publishes
runs/<cell>/{config.yaml, checkpoint/, metrics.jsonl, environment.json}. A run that was killed goes on from its last
complete checkpoint and ends with the same bits; a run key that is finished is published without training. Where
`python -m compclip.launch` sent the run, this waits for its job and publishes what that made.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

from compclip.base.errors import UserError, entry
from compclip.config.sections import Run
from compclip.runs import jobs, progress, publish
from compclip.train import distributed
from compclip.train.finish import complete


def run_cell(run: Run, publisher: publish.Publisher) -> None:
    """Publish a cell's files: made by its job where one was sent, else here, unless its run key is finished.

    Started by torchrun or srun, the processes share the training; the first one waits, locks and publishes.
    """
    with distributed.session() as here:
        if here.rank:
            complete(publisher)
            return
        follower = progress.Follower(publisher.work, run)
        _await_job(publisher, follower)
        with publisher.lock(follower):
            complete(publisher)
            publisher.publish()


def _await_job(publisher: publish.Publisher, show: Callable[[], None]) -> None:
    """Wait for the run's job, if it has one. Raises UserError with the reason where that ended without finishing.

    A process of this machine that is gone is no obstacle; a cluster's job that failed is one until it is sent again or
    given up: what needs a cluster should not start here by itself.
    """
    name, root = publisher.run.cell.name, publisher.work.parent.parent
    job = jobs.find(publisher.key, root)
    state = job.state() if job else jobs.DONE
    if state in (jobs.PENDING, jobs.RUNNING):
        print(f"{name}: {job.label()} trains this run ({state}); waiting for it", flush=True)
        state = jobs.wait(job, show)
    elif isinstance(job, jobs.LocalJob):
        return
    if state == jobs.FAILED and not publisher.finished():
        print("\n".join(f"    {line}" for line in jobs.last_lines(publisher.key, root)), file=sys.stderr)
        raise UserError(
            f"{name}: {job.label()} failed: {job.reason()}; launch it again to go on from its last "
            "checkpoint, or `python -m compclip.launch PROFILE cancel` and it is trained here"
        )


def main(argv: list[str]) -> int:
    """The `train` stage."""
    parser = argparse.ArgumentParser(prog="python -m compclip.train", description=__doc__.splitlines()[0])
    parser.add_argument("--cell", required=True, help="method-backbone-data-seed of the grid")
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    args = parser.parse_args(argv)
    publisher = publish.Publisher.of(args.params, args.overrides, args.cell)
    try:
        run_cell(publisher.run, publisher)
    except KeyboardInterrupt:
        print(f"{args.cell}: no longer waiting; its job goes on, and the same command waits again", file=sys.stderr)
        return 130
    if distributed.place().rank == 0:
        print(json.dumps({"cell": args.cell, "run_key": publisher.key}))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

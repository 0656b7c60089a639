"""The stages `recaption`, `rewrite`, `annotate` of dvc.yaml: `python -m compclip.launch.prepare --data NAME`.

As `compclip.data.prepare`, with one more thing: shards that `python -m compclip.launch PROFILE --stage STAGE` sent to a
cluster are waited for, and what is still missing then is made here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from compclip.base.errors import UserError, entry
from compclip.base.names import Name
from compclip.config.sections import Data
from compclip.data import prepare
from compclip.data.work import Work
from compclip.runs import jobs, tasks
from compclip.runs.jobs import Job


def run(stage: str, name: Name, cfg: Data, root: Path = Path()) -> dict:
    """Bring a stage of a data set up to date; gives the counts. Raises UserError where a cluster's job failed."""
    return prepare.run(stage, name, cfg, root, follow, forget)


def follow(work: Work) -> None:
    """Wait for the live jobs that make what a stage lacks.

    Raises UserError where one failed: what needs a cluster does not start here by itself.
    """
    wanted = {item.key for item in work.missing()}
    found = [task for task in tasks.sent(work.folder) if wanted & set(task.shards.values())]
    known = [job for task in found if (job := jobs.find(task.folder))]
    if live := [job for job in known if job.state() in jobs.LIVE]:
        more = f" and {len(live) - 1} more" if live[1:] else ""
        print(f"{_called(work)}: {live[0].label()}{more} at work on its shards; waiting", flush=True)
        _await(live)
    if failed := [job for job in known if job.state() == jobs.FAILED]:
        raise UserError(_advised(work, failed))


def _await(live: Sequence[Job]) -> None:
    try:
        for job in live:
            jobs.wait(job, lambda: None)
    except KeyboardInterrupt:
        print("no longer waiting; the jobs go on, and the same command waits again", file=sys.stderr)
        raise SystemExit(130) from None


def _advised(work: Work, failed: Sequence[Job]) -> str:
    for job in failed:
        jobs.tell_found(job)
    more = f" (and {len(failed) - 1} more)" if failed[1:] else ""
    return (
        f"{_called(work)}: {failed[0].label()} failed{more}: {failed[0].reason()}; launch the stage again to go on "
        f"with what is missing, or `python -m compclip.launch PROFILE cancel --stage {work.stage}` and it is made here"
    )


def _called(work: Work) -> str:
    return f"{work.stage}@{work.folder.name}"


def forget(work: Work) -> None:
    """Take the tasks whose jobs are over for never sent."""
    for task in tasks.sent(work.folder):
        if not jobs.attach(task.folder):
            task.forget()


def main(argv: list[str]) -> int:
    """Prepare one data set of params.yaml."""
    return prepare.main(argv, run)


if __name__ == "__main__":
    sys.exit(entry(main))

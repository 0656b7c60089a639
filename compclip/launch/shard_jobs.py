"""The stages `recaption`, `rewrite`, `annotate` of dvc.yaml: `python -m compclip.launch.shard_jobs --data NAME`.

As `compclip.prepare.shard_stages`; besides, shards that `python -m compclip.launch PROFILE --stage STAGE` sent to a
cluster are waited for, and what is still missing then is made here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from compclip.base.errors import UserError, entry
from compclip.base.safe_names import SafeName
from compclip.config.sections import Data
from compclip.prepare import shard_stages
from compclip.prepare.shard_work import ShardWork
from compclip.runs import jobs, shard_tasks
from compclip.runs.jobs import Job


def run_stage(stage: str, name: SafeName, cfg: Data, root: Path = Path()) -> dict:
    """Bring a stage of a data set up to date and return the counts. Raises UserError where a cluster's job failed."""
    return shard_stages.run_stage(stage, name, cfg, root, wait_for_tasks, forget_tasks)


def wait_for_tasks(work: ShardWork) -> None:
    """Wait for the live jobs that make what a stage lacks.

    Raises UserError where one failed: what needs a cluster does not start here by itself.
    """
    missing_keys = {item.key for item in work.missing()}
    tasks = [task for task in shard_tasks.list_sent_tasks(work.folder) if missing_keys & set(task.shards.values())]
    task_jobs = [job for task in tasks if (job := jobs.find_job(task.folder))]
    if live := [job for job in task_jobs if job.state() in jobs.LIVE]:
        count = f" and {len(live) - 1} more" if live[1:] else ""
        print(f"{_describe_work(work)}: {live[0].label()}{count} at work on its shards; waiting", flush=True)
        _wait_for_jobs(live)
    if failed := [job for job in task_jobs if job.state() == jobs.FAILED]:
        raise UserError(_explain_failures(work, failed))


def _wait_for_jobs(live: Sequence[Job]) -> None:
    try:
        for job in live:
            jobs.wait_for_job(job, lambda: None)
    except KeyboardInterrupt:
        print("no longer waiting; the jobs go on, and the same command waits again", file=sys.stderr)
        raise SystemExit(130) from None


def _explain_failures(work: ShardWork, failed: Sequence[Job]) -> str:
    for job in failed:
        jobs.post_found_failure(job)
    count = f" (and {len(failed) - 1} more)" if failed[1:] else ""
    return (
        f"{_describe_work(work)}: {failed[0].label()} failed{count}: {failed[0].reason()}; launch the stage again to "
        "go on with what is missing, or `python -m compclip.launch PROFILE cancel "
        f"--stage {work.stage}` and it is made here"
    )


def _describe_work(work: ShardWork) -> str:
    return f"{work.stage}@{work.folder.name}"


def forget_tasks(work: ShardWork) -> None:
    """Remove the tasks whose jobs are over."""
    for task in shard_tasks.list_sent_tasks(work.folder):
        if not jobs.find_live_job(task.folder):
            task.forget()


def main(argv: list[str]) -> int:
    """Prepare one data set of params.yaml."""
    return shard_stages.main(argv, run_stage)


if __name__ == "__main__":
    sys.exit(entry(main))

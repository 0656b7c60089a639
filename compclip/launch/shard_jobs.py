"""The stages `recaption`, `rewrite`, `annotate` of dvc.yaml: `compclip stage prepare --data NAME`.

As `compclip.prepare.shard_stages`; besides, shards that `compclip launch PROFILE --stage STAGE` sent to a
cluster are waited for, and what is still missing then is made here.

A shard is whole or missing, so a task that is killed, preempted or out of time goes on with what it lacks. Where a
captioner is cheap to open, each task has one shard: little is lost with it, and nobody waits for the last one. Where
each task would load a model or start a server, there are as many as run at a time (`array_limit`), and each opens it
once.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compclip.base import plugins
from compclip.base.errors import UserError, entry, unknown
from compclip.base.messages import format_count
from compclip.base.safe_names import SafeName
from compclip.config import grid as cells
from compclip.config.sections import Data, Params
from compclip.config.servers import Server, rewriter_config
from compclip.launch.profiles import Profile
from compclip.prepare import shard_stages
from compclip.prepare.shard_work import ShardWork
from compclip.prepare.shard_writer import ShardTask
from compclip.runs import jobs, lock, shard_tasks
from compclip.runs.shard_tasks import ANNOTATE, RECAPTION, REWRITE, Task

EARLIER = {REWRITE: RECAPTION, ANNOTATE: REWRITE}


def run_stage(stage: str, name: SafeName, cfg: Data, root: Path = Path()) -> dict:
    """Bring a stage of a data set up to date and return the counts. Raises UserError where a cluster's job failed."""
    return shard_stages.run_stage(stage, name, cfg, root, wait_for_tasks, forget_tasks)


def wait_for_tasks(work: ShardWork) -> None:
    """Wait for the live jobs that make what a stage lacks.

    Raises UserError where one failed: what needs a cluster does not start here by itself.
    """
    name = f"{work.stage}@{work.folder.name}"
    missing_keys = {item.key for item in work.missing()}
    task_jobs = []
    for task in shard_tasks.list_sent_tasks(work.folder):
        job = jobs.find_job(task.folder)
        if job and missing_keys & set(task.shards.values()):
            task_jobs.append(job)
    live = [job for job in task_jobs if job.state() in jobs.LIVE]
    if live:
        count = f" and {len(live) - 1} more" if live[1:] else ""
        print(f"{name}: {live[0].label()}{count} at work on its shards; waiting", flush=True)
        try:
            for job in live:
                jobs.wait_for_job(job, lambda: None)
        except KeyboardInterrupt:
            print("no longer waiting; the jobs go on, and the same command waits again", file=sys.stderr)
            raise SystemExit(130) from None
    failed = [job for job in task_jobs if job.state() == jobs.FAILED]
    if failed:
        count = f" (and {len(failed) - 1} more)" if failed[1:] else ""
        raise UserError(
            f"{name}: {failed[0].label()} failed{count}: {failed[0].reason()}; launch the stage again to go on with "
            f"what is missing, or `compclip launch PROFILE cancel --stage {work.stage}` and it is made here"
        )


def forget_tasks(work: ShardWork) -> None:
    """Remove the tasks whose jobs are over."""
    for task in shard_tasks.list_sent_tasks(work.folder):
        if not jobs.find_worker(task.folder):
            jobs.forget_job(task.folder)
            task.forget()


@dataclass(frozen=True)
class MissingShards:
    """What a stage lacks of a data set."""

    name: SafeName
    work: ShardWork
    missing: Sequence[ShardTask]
    keys_in_progress: frozenset[str]  # keys of shards that a live job, or another process, makes

    @property
    def unclaimed(self) -> list[ShardTask]:
        """The missing shards that no live job makes."""
        return [item for item in self.missing if item.key not in self.keys_in_progress]

    def describe(self) -> str:
        """Say in one line how many shards are made, on their way, and to be sent."""
        total = len({item.key for item in self.work.items})
        to_send = len(self.unclaimed)
        return (
            f"{self.work.stage}@{self.name}: {format_count(total, 'shard')}: {total - len(self.missing)} made, "
            f"{len(self.missing) - to_send} on their way, {to_send} to send"
        )

    def complete_here(self, workers: int) -> None:
        """Make what no live job makes in processes of this machine."""
        if self.unclaimed:
            dataclasses.replace(self.work, items=tuple(self.unclaimed)).complete(workers)

    def cut(self, profile: Profile, per_task: int = 0, root: Path = Path(".")) -> list[Task]:
        """Cut what no live job makes into tasks of `per_task` shards; 0: by what it costs to open a captioner."""
        unclaimed = self.unclaimed
        size = per_task or (math.ceil(len(unclaimed) / profile.array_limit) if is_costly(self.work) else 1)
        tasks = []
        for start in range(0, len(unclaimed), size):
            keys = {item.name: item.key for item in unclaimed[start : start + size]}
            tasks.append(Task(self.work.stage, self.name, keys, root))
        return tasks


def select_data(stage: str, data_names: Sequence[str], params: Params) -> list[SafeName]:
    """Select the data sets whose shards are made. Raises UserError for one that is none, or has no such stage."""
    selected = []
    for name in dict.fromkeys(data_names or params.grid.data):
        cfg = params.data.get(name)
        if cfg is None:
            raise unknown("data", name, params.data, "--data")
        if stage != REWRITE or cfg.is_rewritten:
            selected.append(SafeName(name, "data"))
        elif data_names:
            raise UserError(f"--data {name}: has no rewriter, rewrites or masked; nothing is rewritten")
    return selected


def list_prerequisites(stage: str, names: Sequence[str], params: Params) -> list[str]:
    """List the stages that `compclip repro` brings up to date first."""
    if stage == RECAPTION:
        return ["look"]
    stages = [f"{EARLIER[stage]}@{name}" for name in dict.fromkeys(names)]
    if stage == ANNOTATE:
        for name in names:
            stages += [f"benchmark@{benchmark}" for benchmark in params.data[name].exclude]
    return list(dict.fromkeys(stages))


def find_missing(stage: str, name: SafeName, cfg: Data, root: Path) -> MissingShards:
    """Find what a stage lacks now. Raises UserError where an earlier one has not been run."""
    work = shard_stages.plan_work(stage, name, cfg, root)
    missing = work.missing()
    live_keys = {item.key for item in missing if lock.is_locked(work.lock_path(item))}
    for task in shard_tasks.list_sent_tasks(work.folder):
        if jobs.find_worker(task.folder):
            live_keys.update(task.shards.values())
    return MissingShards(name, work, missing, frozenset(live_keys))


def send_tasks(stages: Sequence[MissingShards], profile: Profile, per_task: int, dry: bool, root: Path) -> None:
    """Send what stages lack to a cluster; what needs a GPU is an array of its own."""
    from compclip.launch.slurm import Slurm, describe_sent, submitit_options

    for costly in (False, True):
        to_send = [shards for shards in stages if shards.unclaimed and is_costly(shards.work) == costly]
        tasks = []
        for shards in to_send:
            tasks += shards.cut(profile, per_task, root)
        task_profile = profile.of_shards(costly)
        if tasks and dry:
            options = submitit_options(task_profile, tasks, root / ".work" / "code", root)
            for name, value in {"tasks": len(tasks), **options}.items():
                print(f"{name}: {value}")
        elif tasks:
            for shards in to_send:
                forget_tasks(shards.work)
            for task in tasks:
                task.save()
            for sent in Slurm(task_profile, root, jobs.SHARDS).send(tasks):
                print(describe_sent(sent, "task"), flush=True)
            print("`compclip repro` waits for them and goes on, `compclip status --watch` shows them")


def is_costly(work: ShardWork) -> bool:
    """Return whether making shards loads a model or starts a server: then it is opened once a task."""
    if work.stage == ANNOTATE:
        return False
    if work.stage == REWRITE and work.section.masked:
        return True
    section = cells.captioner_config(work.section) if work.stage == RECAPTION else rewriter_config(work.section)
    if isinstance(section, Server):
        return bool(section.server)
    captioner = plugins.load_plugin(plugins.CAPTIONERS, work.section.captioner)
    return work.stage == RECAPTION and not getattr(captioner, "SIDE_BY_SIDE", False)


def main(argv: list[str]) -> int:
    """Prepare one data set of params.yaml."""
    return shard_stages.main(argv, run_stage)


if __name__ == "__main__":
    sys.exit(entry(main))

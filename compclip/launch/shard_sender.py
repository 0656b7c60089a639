"""Send the shards that a stage lacks: what `python -m compclip.launch PROFILE --stage STAGE` does.

A shard is whole or missing, so a task that is killed, preempted or out of time goes on with what it lacks. Where a
captioner is cheap to open, each task has one shard: little is lost with it, and nobody waits for the last one. Where
each task would load a model or start a server, there are as many as run at a time (`array_limit`), and each opens it
once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from compclip.base import plugins
from compclip.base.errors import UserError, unknown
from compclip.base.safe_names import SafeName
from compclip.config import grid as cells
from compclip.config.sections import Data, Params
from compclip.config.servers import Server
from compclip.launch import grid_runs
from compclip.launch.profiles import Profile
from compclip.launch.shard_jobs import forget_tasks
from compclip.launch.slurm import Slurm, recover_jobs, submitit_options
from compclip.prepare import shard_stages
from compclip.prepare.shard_work import ShardWork
from compclip.prepare.shard_writer import ShardTask
from compclip.runs import jobs, shard_tasks
from compclip.runs.requested_shards import ANNOTATE, RECAPTION, REWRITE
from compclip.runs.shard_tasks import Task

EARLIER = {REWRITE: RECAPTION, ANNOTATE: REWRITE}


@dataclass(frozen=True)
class MissingShards:
    """What a stage lacks of a data set."""

    name: SafeName
    work: ShardWork
    missing: Sequence[ShardTask]
    keys_in_progress: frozenset[str]  # keys of shards that a live job makes

    @property
    def unclaimed(self) -> list[ShardTask]:
        """The missing shards that no live job makes."""
        return [item for item in self.missing if item.key not in self.keys_in_progress]

    def describe(self) -> str:
        """Say in one line how many shards are made, on their way, and to be sent."""
        total, missing_count, to_send = (
            len({item.key for item in self.work.items}),
            len(self.missing),
            len(self.unclaimed),
        )
        return (
            f"{self.work.stage}@{self.name}: {total} shards: {total - missing_count} made, "
            f"{missing_count - to_send} on their way, {to_send} to send"
        )


@dataclass(frozen=True)
class ShardSender:
    """Where shards go: a profile, how many processes of this machine, and how many shards a task has."""

    profile: Profile
    workers: int = 1
    per_task: int = 0  # 0: by what it costs to open
    dry: bool = False
    root: Path = Path(".")

    def send(self, stage: str, data_names: Sequence[str], params: Params) -> int:
        """Send what a stage lacks of data sets, of the grid's where none is named."""
        names = select_data(stage, data_names, params)
        if not self.dry:
            grid_runs.run_dvc_repro(list_prerequisites(stage, names, params), self.root)
            recover_jobs(self.profile, self.root)
        stages = [find_missing(stage, name, params.data[name], self.root) for name in names]
        print("\n".join(shards.describe() for shards in stages), flush=True)
        if self.profile.executor == "local":
            self._make_here(stages)
        else:
            for kind in (False, True):  # what needs a GPU is an array of its own
                self._send_tasks(
                    [shards for shards in stages if shards.unclaimed and is_costly(shards.work) == kind], kind
                )
        return 0

    def _make_here(self, stages: Iterable[MissingShards]) -> None:
        for shards in stages:
            if shards.unclaimed and not self.dry:
                dataclasses.replace(shards.work, items=tuple(shards.unclaimed)).complete(self.workers)

    def _send_tasks(self, stages: Sequence[MissingShards], is_costly: bool) -> None:
        todo = [task for shards in stages for task in self.cut(shards, is_costly)]
        profile = self.profile.of_shards(is_costly)
        if todo and self.dry:
            options = submitit_options(profile, todo, self.root / ".work" / "code", self.root)
            print("\n".join((f"tasks: {len(todo)}", *(f"{name}: {value}" for name, value in options.items()))))
        elif todo:
            for shards in stages:
                forget_tasks(shards.work)
            for task in todo:
                task.save()
            submitted = Slurm(profile, self.root, jobs.SHARDS).send(todo)
            print(
                f"{len(todo)} tasks sent: {submitted[0].label()}"
                + (f" to {submitted[-1].label()}" if submitted[1:] else "")
            )
            print("`dvc repro` waits for them and goes on, `python -m compclip status --watch` shows them")

    def cut(self, shards: MissingShards, is_costly: bool) -> list[Task]:
        """Cut the missing shards that no live job makes into tasks."""
        unclaimed, most = shards.unclaimed, self.profile.array_limit
        size = self.per_task or (math.ceil(len(unclaimed) / most) if is_costly else 1)
        chunks = [unclaimed[start : start + size] for start in range(0, len(unclaimed), size)]
        return [Task(shards.work.stage, shards.name, {i.name: i.key for i in chunk}, self.root) for chunk in chunks]


def select_data(stage: str, data_names: Sequence[str], params: Params) -> list[SafeName]:
    """Select the data sets whose shards are made. Raises UserError for one that is none, or has no such stage."""
    for name in data_names:
        if name not in params.data:
            raise unknown("data", name, params.data, "--data")
        if stage == REWRITE and not _has_rewrites(params.data[name]):
            raise UserError(f"--data {name}: has no rewriter, rewrites or masked; nothing is rewritten")
    selected = dict.fromkeys(data_names or params.grid.data)
    return [SafeName(name, "data") for name in selected if stage != REWRITE or _has_rewrites(params.data[name])]


def _has_rewrites(cfg: Data) -> bool:
    return bool(cfg.rewriter or cfg.rewrites or cfg.masked)


def list_prerequisites(stage: str, names: Iterable[str], params: Params) -> list[str]:
    """List the stages that `dvc repro` brings up to date first."""
    if stage == RECAPTION:
        return ["look"]
    data_names = dict.fromkeys(names)
    benchmarks = dict.fromkeys(b for name in data_names for b in params.data[name].exclude if stage == ANNOTATE)
    return [*(f"{EARLIER[stage]}@{name}" for name in data_names), *(f"benchmark@{name}" for name in benchmarks)]


def find_missing(stage: str, name: SafeName, cfg: Data, root: Path) -> MissingShards:
    """Find what a stage lacks now. Raises UserError where an earlier one has not been run."""
    work = shard_stages.plan_work(stage, name, cfg, root)
    live_tasks = [task for task in shard_tasks.list_sent_tasks(work.folder) if jobs.find_live_job(task.folder)]
    live_keys = frozenset(key for task in live_tasks for key in task.shards.values())
    return MissingShards(name, work, work.missing(), live_keys)


def is_costly(work: ShardWork) -> bool:
    """Return whether making shards loads a model or starts a server: then it is opened once a task."""
    if work.stage == ANNOTATE:
        return False
    if work.stage == REWRITE and work.section.masked:
        return True
    section = cells.captioner_config(work.section) if work.stage == RECAPTION else cells.writer_config(work.section)
    if isinstance(section, Server):
        return bool(section.server)
    captioner = plugins.load_plugin(plugins.CAPTIONERS, work.section.captioner)
    return work.stage == RECAPTION and not getattr(captioner, "SIDE_BY_SIDE", False)

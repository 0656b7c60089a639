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
from compclip.base.names import Name
from compclip.config import grid as cells
from compclip.config.asked import ANNOTATE, RECAPTION, REWRITE
from compclip.config.sections import Data, Params
from compclip.config.servers import Server
from compclip.data import prepare
from compclip.data.item import Item
from compclip.data.work import Work
from compclip.launch import grid
from compclip.launch.prepare import forget
from compclip.launch.profiles import Profile
from compclip.launch.slurm import Slurm, parameters, recovered
from compclip.runs import jobs, tasks
from compclip.runs.tasks import Task

EARLIER = {REWRITE: RECAPTION, ANNOTATE: REWRITE}


@dataclass(frozen=True)
class Left:
    """What a stage lacks of a data set."""

    name: Name
    work: Work
    missing: Sequence[Item]
    flying: frozenset[str]  # keys of shards that a live job makes

    @property
    def ready(self) -> list[Item]:
        """What nobody makes."""
        return [item for item in self.missing if item.key not in self.flying]

    def line(self) -> str:
        """For a person."""
        of, missing, ready = len({item.key for item in self.work.items}), len(self.missing), len(self.ready)
        return (
            f"{self.work.stage}@{self.name}: {of} shards: {of - missing} made, {missing - ready} on their way, "
            f"{ready} to send"
        )


@dataclass(frozen=True)
class Sender:
    """Where shards go: a profile, how many processes of this machine, and how many shards a task has."""

    profile: Profile
    workers: int = 1
    per_task: int = 0  # 0: by what it costs to open
    dry: bool = False
    root: Path = Path(".")

    def send(self, stage: str, wanted: Sequence[str], params: Params) -> int:
        """Send what a stage lacks of data sets, of the grid's where none is named."""
        names = chosen(stage, wanted, params)
        if not self.dry:
            grid.repro(before(stage, names, params), self.root)
            recovered(self.profile, self.root)
        every = [left(stage, name, params.data[name], self.root) for name in names]
        print("\n".join(one.line() for one in every), flush=True)
        if self.profile.executor == "local":
            self._here(every)
        else:
            for kind in (False, True):  # what needs a GPU is an array of its own
                self._away([one for one in every if one.ready and costly(one.work) == kind], kind)
        return 0

    def _here(self, every: Iterable[Left]) -> None:
        for one in every:
            if one.ready and not self.dry:
                dataclasses.replace(one.work, items=tuple(one.ready)).complete(self.workers)

    def _away(self, every: Sequence[Left], is_costly: bool) -> None:
        todo = [task for one in every for task in self.cut(one, is_costly)]
        profile = self.profile.of_shards(is_costly)
        if todo and self.dry:
            options = parameters(profile, todo, self.root / ".work" / "code", self.root)
            print("\n".join((f"tasks: {len(todo)}", *(f"{name}: {value}" for name, value in options.items()))))
        elif todo:
            for one in every:
                forget(one.work)
            for task in todo:
                task.save()
            sent = Slurm(profile, self.root, jobs.SHARDS).send(todo)
            print(f"{len(todo)} tasks sent: {sent[0].label()}" + (f" to {sent[-1].label()}" if sent[1:] else ""))
            print("`dvc repro` waits for them and goes on, `python -m compclip status --watch` shows them")

    def cut(self, one: Left, is_costly: bool) -> list[Task]:
        """The tasks that make what nobody makes."""
        ready, most = one.ready, self.profile.array_limit
        size = self.per_task or (math.ceil(len(ready) / most) if is_costly else 1)
        parts = [ready[start : start + size] for start in range(0, len(ready), size)]
        return [Task(one.work.stage, one.name, {i.name: i.key for i in part}, self.root) for part in parts]


def chosen(stage: str, wanted: Sequence[str], params: Params) -> list[Name]:
    """The data sets whose shards are meant. Raises UserError for one that is none, or has no such stage."""
    for name in wanted:
        if name not in params.data:
            raise unknown("data", name, params.data, "--data")
        if stage == REWRITE and not _rewritten(params.data[name]):
            raise UserError(f"--data {name}: has no rewriter, rewrites or masked; nothing is rewritten")
    found = dict.fromkeys(wanted or params.grid.data)
    return [Name(name, "data") for name in found if stage != REWRITE or _rewritten(params.data[name])]


def _rewritten(cfg: Data) -> bool:
    return bool(cfg.rewriter or cfg.rewrites or cfg.masked)


def before(stage: str, names: Iterable[str], params: Params) -> list[str]:
    """What `dvc repro` brings up to date first."""
    if stage == RECAPTION:
        return ["look"]
    named = dict.fromkeys(names)
    benchmarks = dict.fromkeys(b for name in named for b in params.data[name].exclude if stage == ANNOTATE)
    return [*(f"{EARLIER[stage]}@{name}" for name in named), *(f"benchmark@{name}" for name in benchmarks)]


def left(stage: str, name: Name, cfg: Data, root: Path) -> Left:
    """What a stage lacks now. Raises UserError where an earlier one has not been run."""
    work = prepare.asked(stage, name, cfg, root)
    flying = {key for task in tasks.sent(work.folder) if jobs.attach(task.folder) for key in task.shards.values()}
    return Left(name, work, work.missing(), frozenset(flying))


def costly(work: Work) -> bool:
    """Whether what makes the shards loads a model or starts a server: it is opened once a task, and may need GPUs."""
    if work.stage == ANNOTATE:
        return False
    if work.stage == REWRITE and work.section.masked:
        return True
    asked = cells.captioner_config(work.section) if work.stage == RECAPTION else cells.writer_config(work.section)
    if isinstance(asked, Server):
        return bool(asked.server)
    captioner = plugins.find(plugins.CAPTIONERS, work.section.captioner)
    return work.stage == RECAPTION and not getattr(captioner, "SIDE_BY_SIDE", False)

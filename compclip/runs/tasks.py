"""Tasks: some shards of a stage that one job of a cluster makes, one after the other.

.work/shards/<stage>/<data>/jobs/<task>/task.json         the shards, with the keys that they had when it was sent
.work/shards/<stage>/<data>/jobs/<task>/job.json job.log  as of a run, see runs/folder.py
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compclip.base.errors import UserError, unknown
from compclip.base.files import read_mapping, write_json
from compclip.base.names import Name
from compclip.config import asked
from compclip.runs.folder import Folder

FILE, JOBS = "task.json", "jobs"


@dataclass(frozen=True)
class Task:
    """Some shards of a stage, by name, with their keys; `threads` are those that it computes with."""

    stage: str
    data: str
    shards: Mapping[str, str]
    root: Path = Path()
    threads: int = 1

    @cached_property
    def key(self) -> str:
        """stage/data/task, by what the shards will hold."""
        digest = hashlib.sha256("\n".join(self.shards.values()).encode()).hexdigest()[:16]
        return f"{self.stage}/{self.data}/{digest}"

    @property
    def name(self) -> str:
        """What a person calls it."""
        first, *others = self.shards
        return f"{self.stage}@{self.data} {first}" + (f" and {len(others)} more" if others else "")

    @property
    def folder(self) -> Folder:
        """Its files."""
        return folder(self.key, self.root)

    def save(self) -> None:
        """Write down what its job reads."""
        write_json(self.folder.path / FILE, {"shards": dict(self.shards)})

    def forget(self) -> None:
        """Take it for never sent."""
        shutil.rmtree(self.folder.path, ignore_errors=True)


def is_key(key: str) -> bool:
    """Whether a key is a task's and not a run's."""
    return "/" in key


def folder(key: str, root: Path = Path()) -> Folder:
    """A task's folder by its key. Raises UserError for a key that is none."""
    stage, data, task = (key.split("/") + ["", "", ""])[:3]
    if stage not in asked.STAGES or key.count("/") != 2:
        raise unknown("task of shards", key, ())
    return Folder(work(stage, Name(data, "data"), root) / JOBS / Name(task, "task"))


def work(stage: str, data: Name, root: Path = Path()) -> Path:
    """Where a stage's shards of a data set are made."""
    return root / asked.FOLDER / stage / data


def read(at: Folder) -> Task:
    """The task whose files these are. Raises UserError where there is none, or a damaged one."""
    path, place = at.path / FILE, at.path.parents[1]
    raw = read_mapping(path).get("shards")
    if not isinstance(raw, dict) or not raw:
        raise UserError(f"{path}: damaged; remove {at.path} and launch the stage again")
    shards = dict(asked.sound(list(raw.items()), path))
    return Task(place.parent.name, place.name, shards, place.parents[3])


def sent(folder: Path) -> list[Task]:
    """The tasks that were sent of a stage's folder, alive or not, by their first shards.

    Raises UserError where one is damaged.
    """
    found = [read(Folder(path.parent)) for path in (folder / JOBS).glob(f"*/{FILE}")]
    return sorted(found, key=lambda task: next(iter(task.shards)))


def of(stages: Iterable[str], data: Iterable[str], root: Path = Path()) -> list[Task]:
    """The tasks that were sent of some stages and data sets."""
    places = [work(stage, Name(name, "data"), root) for name in data for stage in stages]
    return [task for place in places for task in sent(place)]


def made(at: Folder) -> bool:
    """Whether all shards of a task are there."""
    return all((at.path.parents[1] / f"{key}.json").is_file() for key in read(at).shards.values())

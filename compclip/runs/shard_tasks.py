"""Shards that the stages over data sets were asked for, and tasks: some of them that one job of a cluster makes.

.work/shards/<stage>/<data>/work.json                     the shards that are wanted, each with the key of its content
.work/shards/<stage>/<data>/<key>.json                    of a shard that is made
.work/shards/<stage>/<data>/jobs/<task>/task.json         a task's shards, with the keys that they had when it was sent
.work/shards/<stage>/<data>/jobs/<task>/job.json job.log  as of a run, see runs/run_folder.py
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
from compclip.base.safe_names import SafeName
from compclip.runs.run_folder import RunFolder

FOLDER = Path(".work/shards")
RECAPTION = "recaption"
REWRITE = "rewrite"
ANNOTATE = "annotate"
STAGES = (RECAPTION, REWRITE, ANNOTATE)
LIST = "work.json"
FILE = "task.json"
JOBS = "jobs"


def list_requests(root: Path = Path()) -> list[Path]:
    """Return the folders of all stages with requests, in the order of the pipeline."""
    folders = [path.parent for path in (root / FOLDER).glob(f"*/*/{LIST}") if path.parent.parent.name in STAGES]
    return sorted(folders, key=lambda folder: (folder.name, STAGES.index(folder.parent.name)))


def read_request(folder: Path) -> dict[str, str]:
    """Return the shards that a stage was asked for, by name, with their keys. Raises UserError where it is damaged."""
    try:
        return {item["name"]: item["key"] for item in read_mapping(folder / LIST)["items"]}
    except (LookupError, TypeError) as error:
        raise UserError(f"{folder / LIST}: damaged; run the stage with `compclip repro` again") from error


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
        first, *further = self.shards
        return f"{self.stage}@{self.data} {first}" + (f" and {len(further)} more" if further else "")

    @property
    def folder(self) -> RunFolder:
        """Its files."""
        return folder(self.key, self.root)

    def save(self) -> None:
        """Write what its job reads."""
        write_json(self.folder.path / FILE, {"shards": dict(self.shards)})

    def forget(self) -> None:
        """Remove its files, as if it had never been sent."""
        shutil.rmtree(self.folder.path, ignore_errors=True)


def is_key(key: str) -> bool:
    """Return whether a key is a task's and not a run's."""
    return "/" in key


def folder(key: str, root: Path = Path()) -> RunFolder:
    """Return a task's folder by its key. Raises UserError for a key that is none."""
    stage, data, task = (key.split("/") + ["", "", ""])[:3]
    if stage not in STAGES or key.count("/") != 2:
        raise unknown("task of shards", key, ())
    return RunFolder(work(stage, SafeName(data, "data"), root) / JOBS / SafeName(task, "task"))


def work(stage: str, data: SafeName, root: Path = Path()) -> Path:
    """Return the folder where a stage's shards of a data set are made."""
    return root / FOLDER / stage / data


def read_task(at: RunFolder) -> Task:
    """Read the task of a folder. Raises UserError where there is none, or a damaged one."""
    folder = at.path.parents[1]
    file = at.path / FILE
    shards = read_mapping(file).get("shards")
    if not shards:
        raise UserError(f"{file}: damaged; remove {at.path} and launch the stage again")
    return Task(folder.parent.name, folder.name, shards, folder.parents[3])


def list_sent_tasks(folder: Path) -> list[Task]:
    """List the tasks that were sent for a stage, live or not, sorted by their first shards.

    Raises UserError where one is damaged.
    """
    tasks = [read_task(RunFolder(path.parent)) for path in (folder / JOBS).glob(f"*/{FILE}")]
    return sorted(tasks, key=lambda task: next(iter(task.shards)))


def find_tasks(stages: Iterable[str], data: Iterable[str], root: Path = Path()) -> list[Task]:
    """List the tasks that were sent for some stages and data sets."""
    folders = [work(stage, SafeName(name, "data"), root) for name in data for stage in stages]
    return [task for folder in folders for task in list_sent_tasks(folder)]


def is_finished(at: RunFolder) -> bool:
    """Return whether all shards of a task are there."""
    return all((at.path.parents[1] / f"{key}.json").is_file() for key in read_task(at).shards.values())

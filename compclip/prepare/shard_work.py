"""Write the shards of a stage one by one: each whole or not at all, and none twice.

    .work/shards/<stage>/<data>/<key>.arrow    a shard; its key hashes all that decides its content
    .work/shards/<stage>/<data>/<key>.tar      pictures that were stored with it, by `annotate` with `short_side`
    .work/shards/<stage>/<data>/<key>.json     its facts and counts, written last
    .work/shards/<stage>/<data>/work.json      the shards that the stage was last asked for

`python -m compclip.prepare.shard_work FOLDER NAME…` writes single shards wherever it is started; a cluster runs it as
an array. Processes may share a folder: each shard has a lock, and the second process finds the shard written.
"""

from __future__ import annotations

import fcntl
import functools
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from compclip.base import links, plugins, worker_processes
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, unknown
from compclip.base.files import read_mapping, write_atomic, write_json
from compclip.base.progress_line import ProgressLine
from compclip.config.grid import captioner_config
from compclip.config.sections import Data
from compclip.config.validation import load_section
from compclip.data.column_hashes import hash_shard
from compclip.data.shard_files import Manifest, Shard
from compclip.prepare import annotate_shards, recaption_shards, rewrite_shards
from compclip.prepare.shard_writer import ShardTask, WriteShard, describe_shard
from compclip.runs.shard_tasks import ANNOTATE, LIST, RECAPTION, REWRITE

COUNTS = "counts.jsonl"
BLOCKS = "blocks"  # the samples that `recaption` copied from its source


@dataclass(frozen=True)
class ShardWork:
    """The shards that a stage is to write for a data set."""

    stage: str
    section: Data
    folder: Path
    items: tuple[ShardTask, ...]
    counts: Mapping[str, float]  # of the data set as a whole, counted while it was cut into shards

    def save(self) -> None:
        """Write work.json, for the processes that write the shards."""
        tasks = [asdict(task) for task in self.items]
        content = {"stage": self.stage, "section": asdict(self.section), "items": tasks, "counts": dict(self.counts)}
        write_json(self.folder / LIST, content)

    def shard_path(self, task: ShardTask) -> Path:
        """Return where a shard is written."""
        return self.folder / f"{task.key}.arrow"

    def pictures_path(self, task: ShardTask) -> Path:
        """Return where the pictures of a shard are written."""
        return self.folder / f"{task.key}.tar"

    def facts_path(self, task: ShardTask) -> Path:
        """Return the file that says that a shard is written, and what was counted."""
        return self.folder / f"{task.key}.json"

    def lock_path(self, task: ShardTask) -> Path:
        """Return the file that whoever writes a shard has locked."""
        return self.folder / f"{task.key}.lock"

    def missing(self) -> list[ShardTask]:
        """Return the shards that are not written yet, equal ones once."""
        tasks = {task.key: task for task in self.items}
        return [task for task in tasks.values() if not self.facts_path(task).is_file()]

    def complete(self, processes: int) -> None:
        """Write what is missing, in this process or in several.

        Raises UserError where a shard cannot be written; finished shards stay.
        """
        tasks = self.missing()
        if not tasks:
            return
        workers = min(processes, len(tasks)) if self.can_share_machine() else 1
        finished = _write_in_processes(self, tasks, workers) if workers > 1 else _write_here(self, tasks)
        for _ in ProgressLine(f"shards of {self.stage}", len(tasks), finished):
            pass

    def publish(self, out: Path) -> tuple[Manifest, Counter]:
        """Link all shards to `out` under their names, remove everything else there; return manifest and counts.

        counts.jsonl beside them has the counts of each shard.
        """
        counts = Counter(self.counts)
        shards = list[Shard]()
        lines = list[str]()
        published = set[str]()
        work_files = {LIST}
        blocks = set[str]()
        for task in self.items:
            facts = read_mapping(self.facts_path(task))
            shard = Shard(task.name, **facts["shard"])
            if shard.samples:
                links.link_or_copy(self.shard_path(task), out / f"{task.name}.arrow")
                published.add(f"{task.name}.arrow")
                shards.append(shard)
            pictures = facts["pictures"]
            if pictures:
                links.link_or_copy(self.pictures_path(task), out / pictures)
                published.add(pictures)
            counts.update(facts["counts"])
            line = {"shard": task.name} | {name: n for name, n in facts["counts"].items() if n}
            lines.append(json.dumps(line) + "\n")
            work_files |= {self.shard_path(task).name, self.pictures_path(task).name, self.facts_path(task).name}
            blocks.add(os.path.basename(task.inputs.get("path", "")))
        write_atomic(out / COUNTS, "".join(lines))
        _remove_others(out, published)
        _remove_others(self.folder, work_files)
        _remove_others(self.folder / BLOCKS, blocks)
        return Manifest(tuple(shards)), counts

    def read_column_hashes(self) -> list[dict[str, str]]:
        """Return the hashes of the columns of each shard with samples, in the order of the manifest."""
        facts_of_shards = map(read_mapping, map(self.facts_path, self.items))
        return [facts["columns"] for facts in facts_of_shards if facts["shard"]["samples"]]

    def open_writer(self) -> AbstractContextManager[WriteShard]:
        """Return a context that gives the function that writes a shard."""
        if self.stage == RECAPTION:
            return recaption_shards.open_captioner(self.section, captioner_config(self.section))
        open_stage = rewrite_shards.open_rewriter if self.stage == REWRITE else annotate_shards.open_annotator
        return open_stage(self.section)

    def can_share_machine(self) -> bool:
        """Return whether several processes may write: not where each would load a model, or ask the same server."""
        if self.stage != RECAPTION:
            return self.stage == ANNOTATE
        captioner = plugins.load_plugin(plugins.CAPTIONERS, self.section.captioner)
        return bool(getattr(captioner, "SIDE_BY_SIDE", False))


def load_work(folder: Path) -> ShardWork:
    """Return the work that was saved in a folder."""
    content = read_mapping(folder / LIST)
    section = load_section(Data, content["section"], f"{folder / LIST}: section")
    tasks = tuple(ShardTask(**task) for task in content["items"])
    return ShardWork(content["stage"], section, folder, tasks, content["counts"])


# --- writing --------------------------------------------------------------------------------------------------


def _write_here(work: ShardWork, tasks: Iterable[ShardTask]) -> Iterator[str]:
    with work.open_writer() as write:
        for task in tasks:
            _write(work, task, write)
            yield task.name


def _write_in_processes(work: ShardWork, tasks: Sequence[ShardTask], workers: int) -> Iterator[str]:
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads of a loaded torch
    with ProcessPoolExecutor(workers, context, worker_processes.end_with_parent) as pool:
        futures = [pool.submit(_write_in_worker, str(work.folder), task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool as error:
            raise UserError(
                f"{work.stage}: a process was killed, perhaps for memory; the same command goes on with what is missing"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _write_in_worker(folder: str, task: ShardTask) -> str:
    work, write = _open_in_worker(folder)
    _write(work, task, write)
    return task.name


@functools.cache
def _open_in_worker(folder: str) -> tuple[ShardWork, WriteShard]:
    """Open the writer once per process."""
    work = load_work(Path(folder))
    return work, work.open_writer().__enter__()


def _write(work: ShardWork, task: ShardTask, write: WriteShard) -> None:
    """Write one shard, unless another process has done it; the system frees the lock of a dead one."""
    with open(work.lock_path(task), "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if work.facts_path(task).is_file():
            return
        begun = time.time()
        started = time.monotonic()
        result = write(task, work.shard_path(task))
        shard = asdict(describe_shard(work.shard_path(task), task.name, result.samples, result.captions))
        shard.pop("name")
        times = {"begun": round(begun, 3), "seconds": round(time.monotonic() - started, 3)}
        facts = {"shard": shard, "pictures": result.pictures, "counts": result.counts}
        if work.stage == ANNOTATE:
            facts["columns"] = hash_shard(work.shard_path(task), Path(task.inputs["samples"]))
        write_json(work.facts_path(task), facts | times)


def _remove_others(folder: Path, names: set[str]) -> None:
    """Remove shards, facts and locks with other names from a folder."""
    for path in folder.glob("*"):
        if path.suffix in (".arrow", ".tar", ".json", ".lock") and path.name not in names:
            links.remove(path)


def main(argv: list[str]) -> int:
    """Write some shards of a stage, by their names."""
    parser = CommandParser(prog="python -m compclip.prepare.shard_work", description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("names", nargs="+")
    args = parser.parse_args(argv)
    work = load_work(Path(args.folder))
    tasks = {task.name: task for task in work.items}
    for name in args.names:
        if name not in tasks:
            raise unknown("shard", name, tasks)
    for name in _write_here(work, map(tasks.__getitem__, args.names)):
        print(json.dumps({"shard": name}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

"""The shards of a stage, made one by one: each whole or not at all, and what is made is not made again.

    .work/shards/<stage>/<data>/<key>.arrow    a shard, by all that its content depends on
    .work/shards/<stage>/<data>/<key>.json     what was counted while it was made; written last
    .work/shards/<stage>/<data>/work.json      the shards that the stage was last asked for

`python -m compclip.data.work FOLDER NAME…` makes shards of a stage wherever it is started: a cluster sends it as an
array. Several processes may work on a folder: a shard has a lock, and whoever comes second finds it made.
"""

from __future__ import annotations

import argparse
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
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tqdm import tqdm

from compclip.base import links
from compclip.base.errors import UserError, entry, unknown
from compclip.base.files import read_mapping, write_atomic, write_json
from compclip.config.asked import ANNOTATE, LIST, RECAPTION, REWRITE, STAGES
from compclip.config.grid import captioner_config, captions_config, masked_config, texts_config, writer_config
from compclip.config.sections import Data
from compclip.config.structured import structured
from compclip.data import annotate, recaption, rewrite, shards
from compclip.data.item import Item, Made, Make
from compclip.data.shards import Manifest, Shard

COUNTS = "counts.jsonl"
BLOCKS = "blocks"  # what `recaption` wrote down of its source


@dataclass(frozen=True)
class Work:
    """What a stage is asked to make of a data set."""

    stage: str
    section: Data
    folder: Path
    items: tuple[Item, ...]
    counts: Mapping[str, float]  # of the whole, made while its shards were told apart

    def save(self) -> None:
        """Write it where whoever makes its shards reads it; what an earlier one left and this does not want goes."""
        listed = [asdict(item) for item in self.items]
        write_json(
            self.folder / LIST,
            {"stage": self.stage, "section": asdict(self.section), "items": listed, "counts": dict(self.counts)},
        )

    def shard(self, item: Item) -> Path:
        """Where a shard is made."""
        return self.folder / f"{item.key}.arrow"

    def facts(self, item: Item) -> Path:
        """What is said of it, once it is made."""
        return self.folder / f"{item.key}.json"

    def missing(self) -> list[Item]:
        """The shards that are not made yet, each content once."""
        keys = {item.key: item for item in self.items}
        return [item for item in keys.values() if not self.facts(item).is_file()]

    def made(self, item: Item) -> tuple[Shard, Made]:
        """A shard that was made. Raises UserError where what is said of it is damaged."""
        raw = read_mapping(self.facts(item))
        try:
            shard = Shard(item.name, **raw["shard"])
            return shard, Made(shard.samples, shard.captions, raw["counts"])
        except (LookupError, TypeError) as error:
            raise UserError(f"{self.facts(item)}: damaged; remove it and run `dvc repro {self.stage}` again") from error

    def complete(self, processes: int) -> None:
        """Make what is missing, in this process or in several.

        Raises UserError where one cannot be made; what was made until then stays.
        """
        if not (todo := self.missing()):
            return
        most = min(processes, len(todo)) if self.side_by_side() else 1
        done = _spread(self, todo, most) if most > 1 else _here(self, todo)
        quiet = None if len(todo) > 1 else True  # None: where somebody sees it
        for _ in tqdm(done, self.stage, len(todo), unit="shard", disable=quiet):
            pass

    def published(self, out: Path) -> tuple[Manifest, Counter]:
        """Link all shards to `out`, under their names, with nothing else there; gives their manifest and counts.

        counts.jsonl beside them says which shard had what.
        """
        counts, listed, lines = Counter(self.counts), [], []
        for item in self.items:
            shard, made = self.made(item)
            if shard.samples:
                links.place(self.shard(item), out / f"{item.name}.arrow")
                listed.append(shard)
            counts.update(made.counts)
            lines.append(json.dumps({"shard": item.name} | {name: n for name, n in made.counts.items() if n}) + "\n")
        write_atomic(out / COUNTS, "".join(lines))
        _keep_only(out, {f"{shard.name}.arrow" for shard in listed})
        kept = {path.name for item in self.items for path in (self.shard(item), self.facts(item))}
        _keep_only(self.folder, kept | {LIST})
        _keep_only(self.folder / BLOCKS, {os.path.basename(item.given.get("path", "")) for item in self.items})
        return Manifest(tuple(listed)), counts

    def opened(self) -> AbstractContextManager[Make]:
        """What makes its shards."""
        if self.stage == RECAPTION:
            return recaption.opened(self.section, captioner_config(self.section), captions_config(self.section))
        if self.stage == REWRITE:
            return rewrite.opened(writer_config(self.section), self.section, masked_config(self.section))
        return annotate.opened(texts_config(self.section))

    def side_by_side(self) -> bool:
        """Whether processes of one machine may share its shards."""
        return self.stage == ANNOTATE or (self.stage == RECAPTION and recaption.side_by_side(self.section))


def load(folder: Path) -> Work:
    """The work that lies in a folder. Raises UserError where there is none, or a damaged one."""
    raw = read_mapping(folder / LIST)
    try:
        section = structured(Data, raw["section"], f"{folder / LIST}: section")
        found = tuple(Item(**item) for item in raw["items"])
        if raw["stage"] in STAGES and all(shards.NAME.fullmatch(i.name) and i.key.isalnum() for i in found):
            return Work(raw["stage"], section, folder, found, raw["counts"])
    except (LookupError, TypeError, AttributeError):
        pass
    raise UserError(f"{folder / LIST}: damaged; run the stage with `dvc repro` again")


# --- making ---------------------------------------------------------------------------------------------------


def _here(work: Work, todo: Iterable[Item]) -> Iterator[str]:
    with work.opened() as make:
        for item in todo:
            _make(work, item, make)
            yield item.name


def _spread(work: Work, todo: Sequence[Item], processes: int) -> Iterator[str]:
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads of a loaded torch
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        waiting = [pool.submit(_in_process, str(work.folder), item) for item in todo]
        try:
            for future in as_completed(waiting):
                yield future.result()
        except BrokenProcessPool as error:
            raise UserError(
                f"{work.stage}: a process was killed, perhaps for memory; the same command goes on with what is missing"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _in_process(folder: str, item: Item) -> str:
    work, make = _kept(folder)
    _make(work, item, make)
    return item.name


@functools.cache
def _kept(folder: str) -> tuple[Work, Make]:
    """What a process needs for all the shards that it is given."""
    work = load(Path(folder))
    return work, work.opened().__enter__()


def _make(work: Work, item: Item, make: Make) -> None:
    """Make one shard, unless somebody did in the meantime."""
    with _sole(work.folder / f"{item.key}.lock"):
        if work.facts(item).is_file():
            return
        started = time.time()
        made = make(item, work.shard(item))
        about = asdict(shards.described(work.shard(item), item.name, made.samples, made.captions))
        about.pop("name")
        spent = {"begun": round(started, 3), "seconds": round(time.time() - started, 3)}
        write_json(work.facts(item), {"shard": about, "counts": made.counts} | spent)


@contextmanager
def _sole(path: Path) -> Iterator[None]:
    """Wait until nobody else makes this shard; the system frees it when one dies."""
    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _keep_only(folder: Path, names: set[str]) -> None:
    """Remove the other shards of a folder, and what is said of them."""
    for path in folder.glob("*"):
        if path.suffix in (".arrow", ".json", ".lock") and path.name not in names:
            links.remove(path)


def main(argv: list[str]) -> int:
    """Make some shards of a stage, by their names."""
    parser = argparse.ArgumentParser(prog="python -m compclip.data.work", description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("names", nargs="+")
    args = parser.parse_args(argv)
    work = load(Path(args.folder))
    known = {item.name: item for item in work.items}
    for name in args.names:
        if name not in known:
            raise unknown("shard", name, known)
    for name in _here(work, [known[name] for name in args.names]):
        print(json.dumps({"shard": name}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

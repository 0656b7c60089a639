"""The stage `look`: what the files of every data set are, without reading them again: `python -m compclip.data.look`.

data/looks/<name>.json changes when a name, a size or a content does, and is all that later stages and DVC see of
pictures. A file is read when its time or size is new: annotation files whole; pictures by their first bytes, all of a
set of up to 20,000, some of a larger one; tars at some places. An edit that keeps name, size and those bytes is not
seen; `dvc repro --force recaption@NAME` reads everything whose time changed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from compclip.base import links
from compclip.base.errors import UserError, entry
from compclip.base.files import read_mapping, update_json
from compclip.config.planned import FOLDER as PLAN
from compclip.config.planned import undamaged

FOLDER, KNOWN = Path("data/looks"), Path(".work/looks.json")
WHOLE = 1 << 30  # bytes of a single file that is read to its end
EVERY = 20_000  # files of a folder that are all looked into
SOME = 2_000  # of a larger one
PLACES, PIECE = 16, 1 << 12
HEAD = 1 << 14


class File(NamedTuple):
    """A file by name, size in bytes, and time of its last change in nanoseconds."""

    path: str
    size: int
    time: int


def files(path: str) -> Iterator[File]:
    """A file, or all files below a folder, in the order of their names; none where there is nothing.

    Links to folders are not followed: a folder may hold a link to itself.
    """
    try:
        found = os.stat(path)
        if not stat.S_ISDIR(found.st_mode):
            yield File(path, found.st_size, found.st_mtime_ns)
            return
        with os.scandir(path) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except (OSError, ValueError):
        return
    for one in entries:
        if one.is_dir(follow_symlinks=False):
            yield from files(one.path)
        else:
            yield from _file(one)


def _file(one: os.DirEntry[str]) -> Iterator[File]:
    try:
        found = one.stat()
    except OSError:  # a link to nowhere
        return
    if stat.S_ISREG(found.st_mode):
        yield File(one.path, found.st_size, found.st_mtime_ns)


def planned(plan: Path) -> dict[str, list[str]]:
    """Of each data set of a plan, where its files are, each once. Raises UserError where the plan is damaged."""
    return {path.stem: _roots(plan, path.name) for path in sorted(plan.glob("recaption/*.json"))}


def _roots(plan: Path, name: str) -> list[str]:
    read, released, beside = (read_mapping(plan / stage / name) for stage in ("recaption", "rewrite", "annotate"))
    with undamaged(plan / "recaption" / name):
        asked, written = read["params"], released["params"]
        shown = asked["negative_images"]
        named = [asked["path"], asked["images"], asked["captions"].get("file")]
        named += [shown.get("file"), shown.get("images")]
        named += [
            written[name] for name in ("captions", "swap", "replace") if "captions" in written and name in written
        ]
        named += [released["masked"].get("model"), *(one.get("file") for one in beside["params"]["texts"].values())]
        return list(dict.fromkeys(os.path.normpath(str(path)) for path in named if path))


def look(paths: Sequence[str], known: dict[str, str]) -> dict:
    """Number, bytes and digest of all files below `paths`. `known` has what was read before, and gets what is new."""
    stamp, count, size = hashlib.sha256(), 0, 0
    for path in paths:
        for file in files(path):
            stamp.update(f"{file.path}\0{file.size} {file.time}\n".encode(errors="surrogateescape"))
            count, size = count + 1, size + file.size
    if stamp.hexdigest() not in known:
        known[stamp.hexdigest()] = _digest(paths, count)
    return {"files": count, "bytes": size, "digest": known[stamp.hexdigest()]}


def _digest(paths: Iterable[str], count: int) -> str:
    step = 1 if count <= EVERY else count // SOME
    digest, number = hashlib.sha256(), 0
    for path in paths:
        for file in files(path):
            name = os.path.relpath(file.path, path)
            digest.update(f"{name}\0{file.size}\n".encode(errors="surrogateescape"))
            if number % step == 0 or file.path == path:
                digest.update(_content(file, whole=file.path == path))
            number += 1
    return digest.hexdigest()


def _content(file: File, whole: bool) -> bytes:
    """A digest of what is looked at of a file's bytes."""
    try:
        with open(file.path, "rb") as opened:
            if whole and file.size <= WHOLE:
                return hashlib.file_digest(opened, "sha256").digest()
            made = hashlib.sha256(opened.read(HEAD))
            for place in range(1, PLACES if file.size > PLACES * HEAD else 1):
                opened.seek(place * file.size // PLACES)
                made.update(opened.read(PIECE))
            return made.digest()
    except OSError as error:
        return repr(error.strerror).encode()


def write(sets: dict[str, list[str]], out: Path = FOLDER, memory: Path = KNOWN) -> None:
    """Look at all data sets, given by name and where their files are; a file in `out` for each, and none besides."""
    known = _remembered(memory)
    found = {name: look(roots, known) for name, roots in sets.items()}
    for path in out.glob("*.json"):
        if path.stem not in found:
            links.remove(path)
    for name, seen in found.items():
        update_json(out / f"{name}.json", seen)
    used = {seen["digest"] for seen in found.values()}
    update_json(memory, {stamp: digest for stamp, digest in known.items() if digest in used})


def _remembered(memory: Path) -> dict[str, str]:
    try:
        return {stamp: str(digest) for stamp, digest in read_mapping(memory).items()} if memory.is_file() else {}
    except UserError:  # nothing depends on it but time
        return {}


def main(argv: list[str]) -> int:
    """Look at the data sets of the plan."""
    if argv:  # the stage has none, and runs whenever DVC does
        import argparse

        argparse.ArgumentParser(prog="python -m compclip.data.look", description=__doc__.splitlines()[0]).parse_args(
            argv
        )
    write(planned(PLAN))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

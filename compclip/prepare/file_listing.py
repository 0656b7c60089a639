"""List the files of every data set without reading them again: the stage `look`.

data/looks/<name>.json changes when a name, a size or a content does, and is all that later stages and DVC see of
pictures. A file is read when its time or size is new: annotation files whole; pictures by their first bytes, all of a
set of up to 20,000, some of a larger one; tars at some positions. An edit that keeps name, size and those bytes is not
seen; `compclip repro --force recaption@NAME` reads everything whose time changed.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from compclip.base import links
from compclip.base.command_line import CommandParser
from compclip.base.errors import entry
from compclip.base.files import read_mapping, update_json
from compclip.base.path_lists import ListedFile, iterate_files
from compclip.config.data_paths import list_paths
from compclip.config.plan import FOLDER as PLAN
from compclip.config.plan import reading

FOLDER = Path("data/looks")
KNOWN_DIGESTS = Path(".work/looks.json")
WHOLE = 1 << 30  # bytes of a single file that is read to its end
EVERY = 20_000  # files of a folder that are all read
SOME = 2_000  # files that are read of a larger folder
# of a large file: so many pieces of so many bytes
POSITIONS = 16
PIECE = 1 << 12
HEAD = 1 << 14  # bytes


def planned_folders(plan: Path) -> dict[str, list[str]]:
    """Return the files and folders of each data set of a plan. Raises UserError where the plan is damaged."""
    folders = {}
    for path in sorted(plan.glob("recaption/*.json")):
        recaption = read_mapping(path)
        rewrite = read_mapping(plan / "rewrite" / path.name)
        annotate = read_mapping(plan / "annotate" / path.name)
        with reading(path):
            section = recaption["params"] | {"rewrites": rewrite["params"], "masked": rewrite["masked"]}
            section["texts"] = annotate["params"]["texts"]
            paths = itertools.chain.from_iterable(list_paths(section).values())
            folders[path.stem] = list(dict.fromkeys(map(os.path.normpath, paths)))
    return folders


def summarize_files(paths: Sequence[str], digests: dict[str, str]) -> dict:
    """Return number, bytes and digest of all files below `paths`. New digests are added to `digests`."""
    stamp = hashlib.sha256()
    count = 0
    size = 0
    for path in paths:
        for file in iterate_files(path):
            stamp.update(f"{file.path}\0{file.size} {file.time}\n".encode(errors="surrogateescape"))
            count = count + 1
            size = size + file.size
    if stamp.hexdigest() not in digests:
        digests[stamp.hexdigest()] = _digest(paths, count)
    return {"files": count, "bytes": size, "digest": digests[stamp.hexdigest()]}


def _digest(paths: Iterable[str], count: int) -> str:
    """Return a hash of names and sizes, and of the content of every `step`-th file and of single files."""
    step = 1 if count <= EVERY else count // SOME
    digest = hashlib.sha256()
    number = 0
    for path in paths:
        for file in iterate_files(path):
            name = os.path.relpath(file.path, path)
            digest.update(f"{name}\0{file.size}\n".encode(errors="surrogateescape"))
            if number % step == 0 or file.path == path:
                digest.update(_hash_content(file, to_end=file.path == path and not path.endswith(".tar")))
            number += 1
    return digest.hexdigest()


def _hash_content(file: ListedFile, to_end: bool) -> bytes:
    try:
        with open(file.path, "rb") as stream:
            if to_end and file.size <= WHOLE:
                return hashlib.file_digest(stream, "sha256").digest()
            digest = hashlib.sha256(stream.read(HEAD))
            for position in range(1, POSITIONS if file.size > POSITIONS * HEAD else 1):
                stream.seek(position * file.size // POSITIONS)
                digest.update(stream.read(PIECE))
            return digest.digest()
    except OSError as error:
        return repr(error.strerror).encode()


def write_listings(sets: dict[str, list[str]], out: Path = FOLDER, memory: Path = KNOWN_DIGESTS) -> None:
    """Write a file in `out` for each data set, given by name with its paths, and remove all others."""
    digests = dict(read_mapping(memory)) if memory.is_file() else {}
    summaries = {name: summarize_files(paths, digests) for name, paths in sets.items()}
    for path in out.glob("*.json"):
        if path.stem not in summaries:
            links.remove(path)
    for name, summary in summaries.items():
        update_json(out / f"{name}.json", summary)
    used = {summary["digest"] for summary in summaries.values()}
    update_json(memory, {stamp: digest for stamp, digest in digests.items() if digest in used})


def main(argv: list[str]) -> int:
    """List the data sets of the plan."""
    description = __doc__.splitlines()[0]
    CommandParser(prog="python -m compclip.prepare.file_listing", description=description).parse_args(argv)
    write_listings(planned_folders(PLAN))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

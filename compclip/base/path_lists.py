"""Several paths in one text: a list, numbers in braces, and patterns; and the files below a path.

data/{00000..00099}.tar         a hundred files; {a,b} is two
/disk1/cc12m::/disk2/cc12m      a list, as webdataset and open_clip write it; in YAML also [/disk1/cc12m, …]
data/**/*.csv                   all that fit, sorted
"""

from __future__ import annotations

import glob
import itertools
import os
import re
import stat
from collections.abc import Iterator
from typing import Any, NamedTuple

from compclip.base.errors import UserError

SEPARATOR = "::"
MOST = 1_000_000  # numbers of one pair of braces
_WILDCARD = re.compile(r"[*?]")
_BRACES = re.compile(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}")


def join_paths(value: Any) -> Any:
    """Return a list of paths as one text; every other value as it is."""
    is_list = isinstance(value, list) and all(isinstance(path, str) for path in value)
    return SEPARATOR.join(value) if is_list else value


def expand_paths(text: str) -> list[str]:
    """Return the paths that a text means, each once; a pattern that nothing fits stays as it is.

    Raises UserError for numbers in braces that fall, or that are too many.
    """
    paths: list[str] = []
    for path in _split_paths(text):
        paths += (sorted(glob.glob(path, recursive=True)) if _WILDCARD.search(path) else []) or [path]
    return list(dict.fromkeys(paths))


def list_roots(text: str) -> list[str]:
    """Return the paths that a text names, of a pattern the folder before its first wildcard."""
    paths = _split_paths(text)
    return [os.path.dirname(_WILDCARD.split(path)[0]) if _WILDCARD.search(path) else path for path in paths]


def _split_paths(text: str) -> list[str]:
    """Return the entries of a list, numbers and choices in braces written out."""
    paths: list[str] = []
    for entry in [text] if os.path.lexists(text) else text.split(SEPARATOR):
        paths += [entry] if os.path.lexists(entry) else _expand_braces(entry)
    return paths


def _expand_braces(text: str) -> list[str]:
    """Return a text once for each value of its braces; numbers are as wide as they are written, as in a shell."""
    match = _BRACES.search(text)
    if not match:
        return [text]
    choices = _count(match[1], match[2]) if match[1] else match[3].split(",")
    endings = _expand_braces(text[match.end() :])
    return [text[: match.start()] + choice + ending for choice, ending in itertools.product(choices, endings)]


def _count(first: str, last: str) -> list[str]:
    if not 0 <= int(last) - int(first) < MOST:
        raise UserError(f"{{{first}..{last}}}: must rise, by less than {MOST:,}; correct the numbers in braces")
    is_padded = any(len(number) > 1 and number.startswith("0") for number in (first, last))
    width = max(len(first), len(last)) if is_padded else 0
    return [str(number).zfill(width) for number in range(int(first), int(last) + 1)]


class ListedFile(NamedTuple):
    """A file by name, size in bytes, and time of its last change in nanoseconds."""

    path: str
    size: int
    time: int


def iterate_files(path: str) -> Iterator[ListedFile]:
    """Give a file, or all files below a folder in the order of their names; nothing where there is none.

    Links to folders are not followed: a folder may hold a link to itself.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISDIR(status.st_mode):
            yield ListedFile(path, status.st_size, status.st_mtime_ns)
            return
        with os.scandir(path) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except (OSError, ValueError):
        return
    for item in entries:
        if item.is_dir(follow_symlinks=False):
            yield from iterate_files(item.path)
            continue
        try:
            status = item.stat()
        except OSError:  # a link to nowhere
            continue
        if stat.S_ISREG(status.st_mode):
            yield ListedFile(item.path, status.st_size, status.st_mtime_ns)

"""Whether files are as they were: by name, time and size, as `make` looks, and never by their contents."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent  # all of our code
REFERENCE = b"${"  # what OmegaConf looks up elsewhere, as in the environment: no stamp shows an edit there


def of(text: bytes, paths: Iterable[str | Path]) -> str:
    """SHA-256 (hex) of a text, of files and folders by name, time and size, and of what is installed beside us."""
    made = hashlib.sha256(text)
    for path in paths:
        for line in _files(str(path)):
            made.update(line.encode())
    made.update("".join(_installed()).encode())
    return made.hexdigest()


def _installed() -> Iterator[str]:
    """A package that comes or goes changes the time of a folder; the project's own folder changes all the time."""
    yield sys.prefix
    for place in sys.path:
        with contextlib.suppress(OSError):
            if "site-packages" in place:
                yield f"{place} {os.stat(place).st_mtime_ns}\n"


def _files(path: str) -> Iterator[str]:
    """Path, time and size of a file or of all files of a folder; a path that is not there is one line."""
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except NotADirectoryError:
        found = os.stat(path)
        yield f"{path} {found.st_mtime_ns} {found.st_size}\n"
    except OSError:
        yield f"{path} missing\n"
    else:
        for entry in entries:
            if entry.name != "__pycache__":
                yield from _files(entry.path)

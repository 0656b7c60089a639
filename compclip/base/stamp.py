"""Stamp files by name, time and size, as `make` does; contents are not read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent  # all of our code
REFERENCE = b"${"  # an interpolation, whose value may change without a change of the file


def compute_stamp(text: bytes, paths: Iterable[str | Path]) -> str:
    """Return the SHA-256 (hex) of a text, of files and folders by name, time and size, and of installed packages."""
    digest = hashlib.sha256(text)
    for path in paths:
        for line in _describe_files(str(path)):
            digest.update(line.encode())
    digest.update("".join(_describe_installed()).encode())
    return digest.hexdigest()


def _describe_installed() -> Iterator[str]:
    """Yield folders of packages with their times: to install or remove a package changes one."""
    yield sys.prefix
    for folder in sys.path:
        with contextlib.suppress(OSError):
            if "site-packages" in folder:
                yield f"{folder} {os.stat(folder).st_mtime_ns}\n"


def _describe_files(path: str) -> Iterator[str]:
    """Yield path, time and size of a file or of all files below a folder; a missing path is one line."""
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except NotADirectoryError:
        status = os.stat(path)
        yield f"{path} {status.st_mtime_ns} {status.st_size}\n"
    except OSError:
        yield f"{path} missing\n"
    else:
        for entry in entries:
            if entry.name != "__pycache__":
                yield from _describe_files(entry.path)

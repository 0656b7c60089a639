"""Which plots a report wrote, so that the next one takes away its own and nobody else's.

`plots/.written.json` has each one's name and hash: a file that somebody changed or put there is not the report's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_bytes, read_json, write_json

MANIFEST = ".written.json"


def begin(folder: Path, files: Mapping[str, str]) -> None:
    """Remove the plots of an earlier report that are not among `files`, and note these before they are written."""
    known = _known(folder)
    for name, wrote in known.items():
        if name not in files and _ours(folder / name, wrote, folder):
            (folder / name).unlink()
    write_json(folder / MANIFEST, {name: _hash(text.encode("utf-8", "replace")) for name, text in files.items()})


def _known(folder: Path) -> dict[str, str]:
    """The manifest; nothing of one that is missing or damaged."""
    try:
        found = read_json(folder / MANIFEST)
    except UserError:
        return {}
    return {name: str(wrote) for name, wrote in found.items()} if isinstance(found, dict) else {}


def _ours(path: Path, wrote: str, folder: Path) -> bool:
    """Whether a file lies below the folder, links resolved, and is as it was written."""
    try:
        inside = path.resolve().is_relative_to(folder.resolve()) and path.suffix == ".csv" and not path.is_symlink()
        return inside and _hash(read_bytes(path)) == wrote
    except (UserError, OSError, ValueError, RuntimeError):  # names that no file can have, and links in a circle
        return False


def _hash(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()

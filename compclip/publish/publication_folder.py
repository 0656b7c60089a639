"""The folder of a publication: put in its place whole, never over what somebody else wrote there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from compclip.base import links
from compclip.base.errors import UserError
from compclip.base.files import check_output_folder, fingerprint, read_mapping, temporary_path, write_json

MARKER, CARD = "compclip_publication.json", "README.md"


def check_target(folder: Path) -> None:
    """Raise UserError for a folder that holds more than an earlier publication, or a card that somebody edited."""
    check_output_folder(str(folder))
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not (folder / MARKER).is_file():
        raise UserError(f"{folder}: is not empty, and no earlier publication; give another folder")
    record = read_mapping(folder / MARKER)
    recorded_files = {MARKER, *map(str, record.get("files") or ())}
    if unknown_files := sorted(set(list_files(folder)) - recorded_files):
        raise UserError(
            f"{folder}: holds {unknown_files[0]}, which no publication wrote; move it away, or give another folder"
        )
    card = folder / CARD
    if card.is_file() and fingerprint(card) != record.get("card"):
        raise UserError(f"{card}: was edited; move it away, or give another folder")


def write_publication(folder: Path, record: dict[str, Any], write: Callable[[Path], None]) -> None:
    """Have `write` fill a folder beside, mark it, and put it in the place of `folder`.

    `record` is what the marker says besides the names of the files. Raises UserError as `check_target`.
    """
    check_target(folder)
    staging = temporary_path(folder.absolute(), "new")
    try:
        write(staging)
        files = {"files": list_files(staging), "card": fingerprint(staging / CARD)}
        write_json(staging / MARKER, record | files)
        links.link_or_copy(staging, folder.absolute())
    finally:
        links.remove(staging)


def list_files(folder: Path) -> list[str]:
    """List the files below a folder by their paths in it, sorted."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())

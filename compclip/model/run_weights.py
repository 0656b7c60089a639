"""A model's folder against the checksums that were recorded of it: a disk or a copy may have changed its bytes.

runs/<method>/<cell>/environment.json    beside a run's checkpoint: one fingerprint of the whole folder
models/<backbone>/.checksums.json        in a backbone's folder: the SHA-256 of each of its files
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import CHECKSUMS, fingerprint, hash_file, hash_unchanged, read_mapping, write_json

# beside a run's checkpoint folder
RECORD = "environment.json"
NAME = "weights_fingerprint"


def check_recorded(folder: Path) -> None:
    """Compare a run's checkpoint folder, or a backbone's, with what was recorded of it; others have no record.

    Reads the folder once a process: a second for a ViT-B/32. Raises UserError where they differ.
    """
    record = folder.parent / RECORD
    recorded = read_mapping(record).get(NAME) if record.is_file() else None
    if recorded and fingerprint(folder, read_hash=hash_unchanged) != recorded:
        raise UserError(
            f"{folder}: damaged since its training ({NAME} in {record} is another); `compclip runs check` says how to "
            "get it back"
        )
    check_files(folder)


def write_checksums(folder: Path) -> None:
    """Record the SHA-256 of each file of a backbone's folder in it; no fingerprint of the folder counts the record."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    write_json(folder / CHECKSUMS, {name: hash_file(folder / name) for name in names})


def check_files(folder: Path) -> None:
    """Compare a backbone's files with its checksums. Raises UserError naming the first damaged one."""
    for path in list_damaged(folder, hash_unchanged):
        raise UserError(
            f"{path}: damaged: not what the stage wrote, and every run key stands for that; "
            f"`compclip runs check --drop` removes it, and `compclip repro backbone@{folder.name}` makes it again; "
            f"weights of your own are taken without {CHECKSUMS}"
        )


def list_damaged(folder: Path, read_hash: Callable[[Path], str]) -> Iterator[Path]:
    """Yield a backbone's files that are missing or not what its checksums say; a folder of earlier has none."""
    record = folder / CHECKSUMS
    for name, recorded in (read_mapping(record) if record.is_file() else {}).items():
        path = folder / Path(name).name
        if not path.is_file() or read_hash(path) != recorded:
            yield path

"""Fetch the pictures of lists of addresses through the program img2dataset.

Its packages need old versions of ours, so it may be in another environment: `pipx install img2dataset`. It does not
fetch again what it has, and its own counts say what was lost.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compclip.base.errors import UserError, unknown
from compclip.base.files import read_mapping
from compclip.fetch.catalogue import PictureList

PROGRAM = "img2dataset"
FORMATS = ("webdataset", "files")
SEPARATORS = {"csv": ",", "tsv": "\t"}
COUNTS = ("count", "successes", "failed_to_download", "failed_to_resize")
HEADER = 1 << 20  # bytes of a first line


@dataclass(frozen=True)
class PictureOptions:
    """How pictures are fetched: shards or loose files, tries a picture beyond the first, pixels of the short side."""

    format: str = "webdataset"
    retries: int = 2
    pixels: int = 256
    processes: int = 0  # 0: one a core


def fetch_pictures(pictures: PictureList, folder: Path, root: Path, way: PictureOptions) -> Counter[str]:
    """Fetch what a list below `folder` names; return img2dataset's counts of pictures, summed.

    Raises UserError where the program or a column is missing, or it ends with a failure.
    """
    list_path = folder / pictures.list
    _check_columns(list_path, pictures)
    target = root / pictures.into
    target.mkdir(parents=True, exist_ok=True)
    command = command_words(_find_program(), pictures, list_path, target, way)
    process = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno())
    if process.returncode:
        raise UserError(f"{PROGRAM} ended with {process.returncode} over {list_path}; run this again: it goes on")
    return count_pictures(target)


def command_words(program: str, pictures: PictureList, list_path: Path, target: Path, way: PictureOptions) -> list[str]:
    """Return the words of the command, which no shell reads."""
    options = {
        "url_list": list_path.resolve(), "input_format": pictures.format, "url_col": pictures.url,
        "output_folder": target.resolve(), "output_format": way.format,
        "processes_count": way.processes or os.cpu_count() or 1, "retries": way.retries,
        "image_size": way.pixels, "resize_mode": "keep_ratio", "resize_only_if_bigger": True,
    }  # fmt: skip
    if pictures.caption:
        options["caption_col"] = pictures.caption
    return [program, *(f"--{name}={value}" for name, value in options.items())]


def _find_program() -> str:
    neighbour = Path(sys.executable).with_name(PROGRAM)
    program = str(neighbour) if neighbour.is_file() else shutil.which(PROGRAM)
    if not program:
        raise UserError(f"{PROGRAM}: not installed; pipx install {PROGRAM}, or give --lists-only to leave pictures out")
    return program


def _check_columns(list_path: Path, pictures: PictureList) -> None:
    files = sorted(list_path.glob(f"*.{pictures.format}")) if list_path.is_dir() else [list_path]
    if not files or not files[0].is_file():
        raise UserError(f"{list_path}: no .{pictures.format} file there; correct `list` of the catalogue")
    for name in filter(None, (pictures.url, pictures.caption)):
        columns = _columns(files[0], pictures.format)
        if columns and name not in columns:
            raise unknown("column", name, columns, str(files[0]))


def _columns(file: Path, kind: str) -> Sequence[str]:
    """Return the names of a list's columns, [] where the format has no header."""
    if kind in SEPARATORS:
        with open(file, encoding="utf-8", errors="replace", newline="") as opened:
            return next(csv.reader([opened.readline(HEADER)], delimiter=SEPARATORS[kind]), [])
    if kind != "parquet":
        return []
    import pyarrow.lib
    import pyarrow.parquet

    try:
        return pyarrow.parquet.read_schema(file).names
    except (pyarrow.lib.ArrowException, OSError) as error:
        raise UserError(f"{file}: no parquet file: {type(error).__name__}; remove it and fetch it again") from error


def count_pictures(folder: Path) -> Counter[str]:
    """Sum img2dataset's counts over its shards: pictures requested, fetched, lost."""
    totals: Counter[str] = Counter()
    for file in sorted(folder.glob("*_stats.json")):
        stats = read_mapping(file)
        totals.update({name: value for name in COUNTS if type(value := stats.get(name)) is int})
    return totals

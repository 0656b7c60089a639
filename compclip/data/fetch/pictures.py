"""Lists of pictures' addresses, through img2dataset: a program of its own, started with a list of words.

Its packages bind old versions of ours, so it may live in another environment: `pipx install img2dataset`. What it has
is not asked for again, and its own counts say what was lost.
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
from compclip.data.fetch.catalogue import Pictures

PROGRAM = "img2dataset"
FORMATS = ("webdataset", "files")
SEPARATORS = {"csv": ",", "tsv": "\t"}
COUNTS = ("count", "successes", "failed_to_download", "failed_to_resize")
HEADER = 1 << 20  # bytes of a first line


@dataclass(frozen=True)
class Way:
    """How pictures are fetched: shards or loose files, tries a picture beyond the first, pixels of the short side."""

    format: str = "webdataset"
    retries: int = 2
    pixels: int = 256
    processes: int = 0  # 0: one a core


def fetch(pictures: Pictures, folder: Path, root: Path, way: Way) -> Counter[str]:
    """Fetch what a list below `folder` names; its own counts of pictures, summed.

    Raises UserError where the program or a column is missing, or it ends with a failure.
    """
    place = folder / pictures.list
    _check_columns(place, pictures)
    target = root / pictures.into
    target.mkdir(parents=True, exist_ok=True)
    command = words(_program(), pictures, place, target, way)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno())
    if done.returncode:
        raise UserError(f"{PROGRAM} ended with {done.returncode} over {place}; run this again: it goes on")
    return counts(target)


def words(program: str, pictures: Pictures, place: Path, target: Path, way: Way) -> list[str]:
    """The command; no shell reads it."""
    options = {
        "url_list": place.resolve(), "input_format": pictures.format, "url_col": pictures.url,
        "output_folder": target.resolve(), "output_format": way.format,
        "processes_count": way.processes or os.cpu_count() or 1, "retries": way.retries,
        "image_size": way.pixels, "resize_mode": "keep_ratio", "resize_only_if_bigger": True,
    }  # fmt: skip
    if pictures.caption:
        options["caption_col"] = pictures.caption
    return [program, *(f"--{name}={value}" for name, value in options.items())]


def _program() -> str:
    beside = Path(sys.executable).with_name(PROGRAM)
    found = str(beside) if beside.is_file() else shutil.which(PROGRAM)
    if not found:
        raise UserError(f"{PROGRAM}: not installed; pipx install {PROGRAM}, or give --lists-only to leave pictures out")
    return found


def _check_columns(place: Path, pictures: Pictures) -> None:
    files = sorted(place.glob(f"*.{pictures.format}")) if place.is_dir() else [place]
    if not files or not files[0].is_file():
        raise UserError(f"{place}: no .{pictures.format} file there; correct `list` of the catalogue")
    for name in filter(None, (pictures.url, pictures.caption)):
        if (known := _columns(files[0], pictures.format)) and name not in known:
            raise unknown("column", name, known, str(files[0]))


def _columns(file: Path, kind: str) -> Sequence[str]:
    """The names of a list's columns; none where the format has no header."""
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


def counts(folder: Path) -> Counter[str]:
    """What img2dataset says of its shards, summed: pictures asked for, fetched, lost."""
    found: Counter[str] = Counter()
    for file in sorted(folder.glob("*_stats.json")):
        stats = read_mapping(file)
        found.update({name: value for name in COUNTS if type(value := stats.get(name)) is int})
    return found

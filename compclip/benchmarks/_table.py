"""Tables of records as their authors or a hub write them: JSON lists, JSON lines, CSV with a header, parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import read_text
from compclip.benchmarks import _files, _parquet

SUFFIXES = (".jsonl", ".jsonlines", ".json", ".csv")
Row = tuple[str, Any]  # its place in the file, counted from 0, and its fields


def listed(path: Path, stem: str, images: str | Path | None) -> tuple[tuple[Path, ...], list[Row]]:
    """The files of a table and its rows: the file itself, or `<stem>` with one of SUFFIXES in a folder, or there at any
    depth the hub's *.parquet of that name or split, whose pictures are unpacked into `images`.

    Raises UserError where there is no such file, or two, for a table without rows, and for what is none.
    """
    names = [f"{stem}{suffix}" for suffix in SUFFIXES]
    tables = [] if any((path / name).is_file() for name in names) else _parquet.tables(path, stem)
    if tables:
        return tuple(tables), _numbered(_parquet.rows(path, images, stem))
    file = _files.one_file(path, *names)
    return (file,), _rows(file)


def _rows(table: Path) -> list[Row]:
    if table.suffix == ".csv":
        return columns(table, ())
    return _numbered(_files.rows(table, list) if table.suffix == ".json" else [row for _, row in _files.lines(table)])


def _numbered(found: Sequence[Any]) -> list[Row]:
    return [(str(index), row) for index, row in enumerate(found)]


def columns(table: Path, needed: Sequence[str]) -> list[Row]:
    """Every row of a CSV file by its header. Raises UserError for a missing column and a row of other length."""
    reader = csv.DictReader(io.StringIO(read_text(table).removeprefix("\ufeff"), newline=""), strict=True)
    found: list[Row] = []
    try:
        if missing := [name for name in needed if name not in (reader.fieldnames or ())]:
            raise UserError(f"{table}: no column {missing[0]!r}; fetch the official file")
        for index, row in enumerate(reader):
            if None in row or None in row.values():
                raise UserError(f"{table}: line {reader.line_num}: not as many columns as the header; fetch it again")
            found.append((str(index), row))
    except csv.Error as error:
        raise UserError(f"{table}: line {reader.line_num}: {error}; fetch the official file") from error
    if not found:
        raise UserError(f"{table}: holds no records; fetch the official file")
    return found


def whole(table: Path, key: str, row: Mapping[str, Any], name: str) -> int:
    """A field that is a whole number, also where it is written as text. Raises UserError for another."""
    found = _files.value(table, key, row, name, (int, str))
    if not str(found).isdecimal():
        raise UserError(f"{table}: record {key}: {name}={found!r} is no whole number; fetch the official file")
    return int(found)


def picture(pictures: Path, name: str) -> str:
    """A picture at its path seen from `pictures`, or at the end of that path: other people's paths begin anywhere.

    What is nowhere is taken to be missing from `pictures` itself; a picture out of a table is as it is.
    """
    if _parquet.is_reference(name):
        return name
    parts = [part for part in Path(name).parts if part not in ("/", "..")]
    places = [pictures / name, *(pictures.joinpath(*parts[start:]) for start in range(len(parts)))]
    return str(next((place for place in places if _is_file(place)), places[-1]))


def _is_file(place: Path) -> bool:
    try:
        return place.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False

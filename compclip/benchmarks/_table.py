"""Tables of records as their authors or a hub write them: JSON lists, JSON lines, CSV with a header, parquet."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import read_text
from compclip.benchmarks import _files, _parquet

SUFFIXES = (".jsonl", ".jsonlines", ".json", ".csv")
Row = tuple[str, Any]  # its place in the file, counted from 0, and its fields


def read_table(path: Path, stem: str, images: str | Path | None) -> tuple[tuple[Path, ...], list[Row]]:
    """The files of a table and its rows: the file itself, or `<stem>` with one of SUFFIXES in a folder, or there at any
    depth the hub's *.parquet of that name or split, whose pictures are unpacked into `images`.

    Raises UserError where there is no such file, or two, for a table without rows, and for what is none.
    """
    names = [f"{stem}{suffix}" for suffix in SUFFIXES]
    tables = [] if any((path / name).is_file() for name in names) else _parquet.tables(path, stem)
    if tables:
        return tuple(tables), _number_rows(_parquet.rows(path, images, stem))
    file = _files.one_file(path, *names)
    if file.suffix == ".csv":
        return (file,), columns(file, ())
    json_rows = _files.read_rows(file, list) if file.suffix == ".json" else [row for _, row in _files.read_lines(file)]
    return (file,), _number_rows(json_rows)


def _number_rows(rows: Sequence[Any]) -> list[Row]:
    return [(str(index), row) for index, row in enumerate(rows)]


def columns(table: Path, needed: Sequence[str]) -> list[Row]:
    """Read all rows of a CSV file by its header. Raises UserError for a missing column and a row of another length."""
    reader = csv.DictReader(io.StringIO(read_text(table).removeprefix("\ufeff"), newline=""), strict=True)
    table_rows: list[Row] = []
    try:
        if absent := [name for name in needed if name not in (reader.fieldnames or ())]:
            present = ", ".join(reader.fieldnames or ()) or "none"
            raise UserError(f"{table}: no column {absent[0]!r}; found {present}; fetch the official file")
        for index, row in enumerate(reader):
            if None in row or None in row.values():
                raise UserError(f"{table}: line {reader.line_num}: not as many columns as the header; fetch it again")
            table_rows.append((str(index), row))
    except csv.Error as error:
        raise UserError(f"{table}: line {reader.line_num}: {error}; fetch the official file") from error
    if not table_rows:
        raise UserError(f"{table}: holds no records; fetch the official file")
    return table_rows


def whole_number(table: Path, key: str, row: Mapping[str, Any], name: str) -> int:
    """Return a field that is a whole number, also if written as text. Raises UserError for others."""
    field = _files.read_field(table, key, row, name, (int, str))
    if not str(field).isdecimal():
        raise UserError(f"{table}: record {key}: {name}={field!r} is no whole number; fetch the official file")
    return int(field)


def picture(pictures: Path, name: str) -> str:
    """Find a picture at its path from `pictures`, or at an end of that path: other people's paths begin anywhere.

    What is nowhere is taken to be missing from `pictures` itself; a picture out of a table is as it is.
    """
    if _parquet.is_reference(name):
        return name
    components = [component for component in Path(name).parts if component not in ("/", "..")]
    paths = [pictures / name, *(pictures.joinpath(*components[start:]) for start in range(len(components)))]
    return str(next((path for path in paths if os.path.isfile(path)), paths[-1]))

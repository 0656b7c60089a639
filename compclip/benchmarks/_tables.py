"""Tables of records as their authors or a hub write them: JSON lists, JSON lines, CSV with a header, parquet, Arrow.

Hugging Face keeps data sets with pictures inside, in columns of {bytes, path} of *.parquet or *.arrow; these are read
from where they lie (`data.tables`).
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.benchmarks import _files
from compclip.data import tables
from compclip.data.sample import ImageLocation
from compclip.evaluate import benchmark

TEXT_SUFFIXES = (".jsonl", ".jsonlines", ".json", ".csv")
TABLE_SUFFIXES = (".parquet", ".arrow")
KeyedRow = tuple[str, Any]  # its position in the file, counted from 0, and its fields


def read_table(path: Path, stem: str) -> tuple[tuple[Path, ...], list[KeyedRow]]:
    """The files of a table and its rows: the file itself, or `<stem>` with one of TEXT_SUFFIXES in a folder, or there
    at any depth the hub's *.parquet of that name or split.

    Raises UserError where there is no such file, or two, for a table without rows, and for what is none.
    """
    names = [f"{stem}{suffix}" for suffix in TEXT_SUFFIXES]
    table_files = [] if any((path / name).is_file() for name in names) else list_tables(path, stem)
    if table_files:
        return tuple(table_files), _files.number_rows(read_rows(path, stem))
    file = _files.one_file(path, *names)
    if file.suffix == ".csv":
        return (file,), read_columns(file, ())
    if file.suffix == ".json":
        return (file,), _files.read_items(file)
    return (file,), _files.number_rows(row for _, row in _files.read_lines(file))


def lines_or_rows(path: Path, name: str) -> tuple[tuple[Path, ...], Sequence[tuple[int, Any]]]:
    """Read the JSON lines of file `name` in a folder with their numbers; where it is absent, tables and their rows.

    Raises UserError for neither.
    """
    table_files = list_tables(path) if not (path / name).is_file() else []
    if not table_files:
        return (path / name,), _files.read_lines(path / name)
    return tuple(table_files), list(enumerate(read_rows(path), 1))


def read_columns(table: Path, needed: Sequence[str]) -> list[KeyedRow]:
    """Read all rows of a CSV file by its header. Raises UserError for a missing column and a damaged row."""
    names = tables.read_columns(table)
    absent = [name for name in needed if name not in names]
    if absent:
        raise UserError(f"{table}: no column {absent[0]!r}; found {', '.join(names)}; fetch the official file")
    counts = Counter[str]()
    rows: list[KeyedRow] = [(str(i), row.values) for i, row in enumerate(tables.read_rows(table, names, counts))]
    require_whole_rows(table, counts)
    return _files.require_records(table, rows)


def whole_number(table: Path, key: str, row: Mapping[str, Any], name: str, below: float = math.inf) -> int:
    """Return a field that is a whole number below a limit, also if written as text. Raises UserError for others."""
    field = _files.read_field(table, key, row, name, (int, str))
    if not str(field).isdecimal() or int(field) >= below:
        limit = "" if math.isinf(below) else f" below {below}"
        raise UserError(f"{table}: record {key}: {name}={field!r} is no whole number{limit}; fetch the official file")
    return int(field)


def find_picture(pictures: Path, name: str) -> str:
    """Find a picture at its path from `pictures`, or at an end of that path: other people's paths begin anywhere.

    What is nowhere is taken to be missing from `pictures` itself; a picture out of a table is as it is.
    """
    if benchmark.BYTES in name:
        return name
    components = [component for component in Path(name).parts if component not in ("/", "..")]
    ends = [pictures.joinpath(*components[start:]) for start in range(len(components))]
    paths = [pictures / name, *ends]
    return str(next(filter(os.path.isfile, paths), paths[-1]))


def find_pictures(pictures: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Find several pictures as `find_picture` does."""
    return tuple(find_picture(pictures, name) for name in names)


def named_picture(pictures: Path, name: str, suffix: str) -> str:
    """Return the picture of a row: a reference, or a file in `pictures`, with `suffix` where its name has none."""
    if benchmark.BYTES in name:
        return name
    return str(pictures / (name if Path(name).suffix else f"{name}{suffix}"))


def refer_to(value: Any) -> str:
    """Return the reference of a picture's place, or the path that a cell has for it; "" for anything else."""
    if isinstance(value, ImageLocation):
        return benchmark.bytes_of_file(value.path, value.offset, value.length) if value.length else value.path
    return value if isinstance(value, str) else ""


def require_whole_rows(path: str | Path, counts: Mapping[str, int]) -> dict[str, int]:
    """Return what was counted of a table of one's own. Raises UserError for a row that cannot be read."""
    lost = {}
    for reason, count in counts.items():
        name, _, place = reason.partition(" ")
        if count and name in ("damaged_rows", "not_utf8_rows"):
            raise UserError(f"{path}: {count} {name.replace('_', ' ')} {place}; repair them, or fetch the file again")
        if count:
            lost[name] = count
    return lost


# --- parquet and Arrow ----------------------------------------------------------------------------------------


def list_tables(path: Path, split: str = "") -> list[Path]:
    """Return the table, or those at any depth of a folder, in order; of a split those in `<split>/` or `<split>-….`

    *.arrow, which the package datasets saves, where there are no *.parquet.
    """
    if path.is_file():
        return [path] if path.suffix in TABLE_SUFFIXES else []
    for suffix in TABLE_SUFFIXES:
        table_files = []
        for file in sorted(path.rglob(f"*{suffix}")):
            splits = (file.parent.name, file.stem, file.name.partition("-")[0])
            if file.is_file() and (not split or split in splits):
                table_files.append(file)
        if table_files:
            return table_files
    return []


def read_rows(path: str | Path, split: str = "") -> list[dict[str, Any]]:
    """Read all rows of tables; a picture becomes a reference that `embed` can open, or a name.

    `named_picture` makes a path of a name. Raises UserError where there is no table, and for one that cannot be read.
    """
    table_files = list_tables(Path(path), split)
    if not table_files:
        of_split = f" of split {split!r}" if split else ""
        raise UserError(f"{path}: no *.parquet{of_split} there; fetch the official files")
    rows = []
    for table in table_files:
        picture_columns = tables.list_picture_columns(table)
        for number, row in enumerate(tables.read_records(table)):
            for name in picture_columns:  # a name that no file has where the row does not even name it
                row[name] = refer_to(row[name]) or f"{table.name}/{number}"
            rows.append(row)
    return rows


def class_names(table: Path, column: str) -> list[str]:
    """Return the names of a column's class numbers as the package datasets notes them in a schema; [] without them."""
    metadata = tables.read_schema(table).metadata or {}
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        names = features[column]["names"]
    except (ValueError, KeyError, TypeError, RecursionError):  # others' text: another column, or none of this form
        return []
    return names if isinstance(names, list) and _files.are_texts(names) else []

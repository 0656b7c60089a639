"""Tables of records as their authors or a hub write them: JSON lists, JSON lines, CSV with a header, parquet, Arrow.

Hugging Face keeps data sets with pictures inside, in columns of {bytes, path} of *.parquet or *.arrow. Parquet
compresses its pages, so that no picture can be read where it lies. A table's pictures are unpacked once, into one file
in the folder of pictures, `<table>.<its hash>.pictures`, and a picture is bytes of that file; its other columns stand
in `<table>.<its hash>.rows`. That costs about the table's size on disk and the time to write it; later reading costs
nothing of either. Both files may be removed: the next reading makes them again.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from compclip.base.errors import UserError, one_line
from compclip.base.files import atomic, check_regular, read_text
from compclip.benchmarks import _files
from compclip.data.sample import ImageLocation
from compclip.evaluate import benchmark

TEXT_SUFFIXES = (".jsonl", ".jsonlines", ".json", ".csv")
TABLE_SUFFIXES = (".parquet", ".arrow")
BATCH_ROWS = 64  # decoded at once: a row may hold two large photographs
FOOT = 1 << 20  # bytes at the end of a table, which tell where and how long each of its pages is
KeyedRow = tuple[str, Any]  # its position in the file, counted from 0, and its fields


def read_table(path: Path, stem: str, images: str | Path | None) -> tuple[tuple[Path, ...], list[KeyedRow]]:
    """The files of a table and its rows: the file itself, or `<stem>` with one of TEXT_SUFFIXES in a folder, or there
    at any depth the hub's *.parquet of that name or split, whose pictures are unpacked into `images`.

    Raises UserError where there is no such file, or two, for a table without rows, and for what is none.
    """
    names = [f"{stem}{suffix}" for suffix in TEXT_SUFFIXES]
    tables = [] if any((path / name).is_file() for name in names) else list_tables(path, stem)
    if tables:
        return tuple(tables), [(str(index), row) for index, row in enumerate(read_rows(path, images, stem))]
    file = _files.one_file(path, *names)
    if file.suffix == ".csv":
        return (file,), read_columns(file, ())
    values = _files.read_rows(file, list) if file.suffix == ".json" else [row for _, row in _files.read_lines(file)]
    return (file,), [(str(index), row) for index, row in enumerate(values)]


def lines_or_rows(
    path: Path, name: str, images: str | Path | None
) -> tuple[tuple[Path, ...], Sequence[tuple[int, Any]]]:
    """Read the JSON lines of file `name` in a folder with their numbers; where it is absent, tables and their rows.

    Raises UserError for neither.
    """
    tables = list_tables(path) if not (path / name).is_file() else []
    if not tables:
        return (path / name,), _files.read_lines(path / name)
    return tuple(tables), list(enumerate(read_rows(path, images), 1))


def read_columns(table: Path, needed: Sequence[str]) -> list[KeyedRow]:
    """Read all rows of a CSV file by its header. Raises UserError for a missing column and a row of another length."""
    reader = csv.DictReader(io.StringIO(read_text(table), newline=""), strict=True)
    rows: list[KeyedRow] = []
    try:
        absent = [name for name in needed if name not in (reader.fieldnames or ())]
        if absent:
            present = ", ".join(reader.fieldnames or ()) or "none"
            raise UserError(f"{table}: no column {absent[0]!r}; found {present}; fetch the official file")
        for index, row in enumerate(reader):
            if None in row or None in row.values():
                raise UserError(f"{table}: line {reader.line_num}: not as many columns as the header; fetch it again")
            rows.append((str(index), row))
    except csv.Error as error:
        raise UserError(f"{table}: line {reader.line_num}: {error}; fetch the official file") from error
    if not rows:
        raise UserError(f"{table}: holds no records; fetch the official file")
    return rows


def whole_number(table: Path, key: str, row: Mapping[str, Any], name: str) -> int:
    """Return a field that is a whole number, also if written as text. Raises UserError for others."""
    field = _files.read_field(table, key, row, name, (int, str))
    if not str(field).isdecimal():
        raise UserError(f"{table}: record {key}: {name}={field!r} is no whole number; fetch the official file")
    return int(field)


def find_picture(pictures: Path, name: str) -> str:
    """Find a picture at its path from `pictures`, or at an end of that path: other people's paths begin anywhere.

    What is nowhere is taken to be missing from `pictures` itself; a picture out of a table is as it is.
    """
    if benchmark.BYTES in name:
        return name
    components = [component for component in Path(name).parts if component not in ("/", "..")]
    paths = [pictures / name, *(pictures.joinpath(*components[start:]) for start in range(len(components)))]
    return str(next((path for path in paths if os.path.isfile(path)), paths[-1]))


def named_picture(pictures: Path, name: str, suffix: str) -> str:
    """Return the picture of a row: a reference, or a file in `pictures`, with `suffix` where its name has none."""
    if benchmark.BYTES in name:
        return name
    return str(pictures / (name if Path(name).suffix else f"{name}{suffix}"))


def reference_of(pictures: Path, value: Any) -> str:
    """Return the picture of a table's cell: bytes in the table, or a file found by its path; "" for neither."""
    if isinstance(value, ImageLocation):
        return benchmark.bytes_of_file(value.path, value.offset, value.length) if value.length else value.path
    return find_picture(pictures, value.replace("\\", "/")) if isinstance(value, str) and value else ""


def require_whole_rows(path: str | Path, counts: Mapping[str, int]) -> dict[str, int]:
    """Return what was counted of a table of one's own. Raises UserError for a row that cannot be read."""
    for reason, count in counts.items():
        if count and reason.startswith(("damaged_rows", "not_utf8_rows")):
            raise UserError(f"{path}: {count} {reason.replace('_', ' ')}; repair them, or remove them")
    return {reason.partition(" ")[0]: count for reason, count in counts.items() if count}


# --- parquet and Arrow ----------------------------------------------------------------------------------------


def list_tables(path: Path, split: str = "") -> list[Path]:
    """Return the table, or those at any depth of a folder, in order; of a split those in `<split>/` or `<split>-….`

    *.arrow, which the package datasets saves, where there are no *.parquet.
    """
    if path.is_file():
        return [path] if path.suffix in TABLE_SUFFIXES else []
    for suffix in TABLE_SUFFIXES:
        files = [file for file in sorted(path.rglob(f"*{suffix}")) if file.is_file()]
        tables = [f for f in files if not split or split in (f.parent.name, f.stem, f.name.partition("-")[0])]
        if tables:
            return tables
    return []


def read_rows(path: str | Path, pictures: str | Path | None = None, split: str = "") -> list[dict[str, Any]]:
    """Read all rows of tables; a picture becomes a reference that `embed` can open, or a name.

    `pictures`: the folder for unpacked pictures, without it that of each table; `named_picture` makes a path of a name.
    Raises UserError where there is no table, for one that cannot be read, and for unpacked rows that are damaged.
    """
    tables = list_tables(Path(path), split)
    if not tables:
        of_split = f" of split {split!r}" if split else ""
        raise UserError(f"{path}: no *.parquet{of_split} there; fetch the official files")
    return [row for table in tables for row in _rows_of_table(table, Path(pictures) if pictures else table.parent)]


def _rows_of_table(table: Path, pictures: Path) -> list[dict[str, Any]]:
    """Read the rows of a table; each picture is a reference into the unpacked file in `pictures`, or its name."""
    with open(check_regular(table), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - FOOT))
        digest = hashlib.sha256(b"%d " % size + file.read()).hexdigest()[:12]
    pack, row_file = (pictures / f"{table.name}.{digest}.{kind}" for kind in ("pictures", "rows"))
    if not (pack.is_file() and row_file.is_file()):
        _unpack(table, pack, row_file)
    try:
        with pa.memory_map(str(row_file)) as mapped:
            arrow_table = pa.ipc.open_file(mapped).read_all()
            rows: list[dict[str, Any]] = arrow_table.to_pylist()
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = one_line(str(error))[:200]
        raise UserError(f"{row_file}: damaged ({reason}); remove it, and it is made again") from error
    picture_columns = [field.name for field in arrow_table.schema if _is_picture(field.type)]
    for number, row in enumerate(rows):
        for name in picture_columns:
            location = row[name] or {}
            if location.get("length"):
                row[name] = benchmark.bytes_of_file(str(pack), location["offset"], location["length"])
            else:  # a name that no file has where the row does not even name it
                row[name] = location.get("path") or f"{pack.name}/{number}"
    return rows


def class_names(table: Path, column: str) -> list[str]:
    """Return the names of a column's class numbers as the package datasets notes them in a schema; [] without them."""
    if table.suffix == ".parquet":
        schema = pq.read_schema(check_regular(table))
    else:
        with pa.memory_map(check_regular(table)) as file, pa.ipc.open_stream(file) as stream:
            schema = stream.schema
    try:
        names = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"][column]["names"]
    except (ValueError, KeyError, TypeError, RecursionError):  # others' text: another column, or none of this form
        return []
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def _unpack(table: Path, pack: Path, row_file: Path) -> None:
    """Write the pictures, then the rows, so that rows imply pictures; concurrent processes write the same."""
    with atomic(pack) as to, open(to, "wb") as out:
        batches = [_move_pictures(names, columns, out) for names, columns in _batches(table)]
    with atomic(row_file) as to, pa.ipc.new_file(str(to), batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _batches(table: Path) -> Iterator[tuple[list[str], list[tuple[pa.Array, bool]]]]:
    """Yield batches: names, and columns with whether they are pictures; the last is empty, for a table without rows.

    Names and texts are checked for UTF-8, which Arrow does not by itself.
    """
    kind = table.suffix.removeprefix(".")
    try:
        for batch in _arrow_batches(table) if kind == "arrow" else _parquet_batches(table):
            batch.validate(full=True)
            yield batch.schema.names, [(column, _is_picture(column.type)) for column in batch.columns]
    except (OSError, pa.ArrowException, ValueError) as error:
        raise UserError(f"{table}: cannot be read as {kind} ({one_line(str(error))[:200]}); fetch it again") from error


def _parquet_batches(table: Path) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(check_regular(table), pre_buffer=False) as file:  # which would hold the whole table
        yield from file.iter_batches(BATCH_ROWS, use_threads=False)
        yield pa.RecordBatch.from_pylist([], schema=file.schema_arrow)


def _arrow_batches(table: Path) -> Iterator[pa.RecordBatch]:
    """Read a stream, which is what the package datasets saves."""
    with pa.memory_map(check_regular(table)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield from (batch.slice(start, BATCH_ROWS) for start in range(0, len(batch), BATCH_ROWS))
        yield pa.RecordBatch.from_pylist([], schema=stream.schema)


def _move_pictures(names: list[str], columns: list[tuple[pa.Array, bool]], out: IO[bytes]) -> pa.RecordBatch:
    """Write the pictures of rows and return the rows with their locations."""
    location_type = pa.struct([("path", pa.string()), ("offset", pa.int64()), ("length", pa.int64())])
    moved = [
        pa.array(list(_write_pictures(column, out)), location_type) if are_pictures else column
        for column, are_pictures in columns
    ]
    return pa.RecordBatch.from_arrays(moved, names=names)


def _write_pictures(column: pa.Array, out: IO[bytes]) -> Iterator[dict[str, Any]]:
    from compclip.data.images import MAX_BYTES  # and with it Pillow, which `config check` does without

    for value in column:
        cell = value.as_py()
        raw, path = (cell.get("bytes"), cell.get("path")) if isinstance(cell, dict) else (cell, None)
        if raw and len(raw) <= MAX_BYTES:
            yield {"path": path, "offset": out.tell(), "length": len(raw)}
            out.write(raw)
        else:
            yield {"path": None if raw else path, "offset": 0, "length": 0}


def _is_picture(kind: pa.DataType) -> bool:
    """Return whether a type holds pictures: bytes, {bytes, path}, or our locations."""
    if pa.types.is_struct(kind):
        names = {kind.field(i).name for i in range(kind.num_fields)}
        return names in ({"bytes", "path"}, {"path", "offset", "length"})
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)

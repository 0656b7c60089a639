"""The pictures of parquet and Arrow tables in files of their own, unpacked once; what it costs stands in `_parquet`."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from compclip.base.errors import UserError, one_line
from compclip.base.files import atomic, check_regular
from compclip.data.images import MAX_BYTES
from compclip.evaluate import picture_references

ROWS = 64  # decoded at once: a row may hold two large photographs
FOOT = 1 << 20  # bytes at the end of a table, which tell where and how long each of its pages is


def rows(table: Path, pictures: Path) -> list[dict[str, Any]]:
    """Read the rows of a table; each picture is a reference into the unpacked file in `pictures`, or its name.

    Raises UserError for a table that cannot be read, and for unpacked rows that are damaged.
    """
    pack, row_file = (pictures / f"{table.name}.{_hash(table)}.{kind}" for kind in ("pictures", "rows"))
    if not (pack.is_file() and row_file.is_file()):
        _unpack(table, pack, row_file)
    try:
        with pa.memory_map(str(row_file)) as file:
            arrow_table = pa.ipc.open_file(file).read_all()
            places = [name for name in arrow_table.column_names if _is_picture(arrow_table.schema.field(name).type)]
            read: list[dict[str, Any]] = arrow_table.to_pylist()
    except (OSError, pa.ArrowException, ValueError) as error:
        raise UserError(
            f"{row_file}: damaged ({one_line(str(error))[:200]}); remove it, and it is made again"
        ) from error
    for number, row in enumerate(read):
        row.update({name: _reference(pack, row[name], number) for name in places})
    return read


def class_names(table: Path, column: str) -> list[str]:
    """Return the names of a column's class numbers as the package datasets notes them in a schema; [] without them."""
    raw = (_schema(table).metadata or {}).get(b"huggingface", b"{}")
    try:
        names = json.loads(raw)["info"]["features"][column]["names"]
    except (ValueError, KeyError, TypeError, RecursionError):  # others' text: another column, or none of this form
        return []
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def _schema(table: Path) -> pa.Schema:
    """Read the schema of a table that was read before."""
    if table.suffix == ".parquet":
        return pq.read_schema(check_regular(table))
    with pa.memory_map(check_regular(table)) as file, pa.ipc.open_stream(file) as stream:
        return stream.schema


def _reference(pack: Path, location: Mapping[str, Any] | None, number: int) -> str:
    """Return where a picture is; its name where the row only names it; else a name that no file has."""
    location = location or {}
    if location.get("length"):
        return picture_references.bytes_of_file(str(pack), location["offset"], location["length"])
    return location.get("path") or f"{pack.name}/{number}"


def _hash(table: Path) -> str:
    """Hash the table's size and end."""
    try:
        with open(check_regular(table), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - FOOT))
            return hashlib.sha256(b"%d " % size + file.read()).hexdigest()[:12]
    except OSError as error:
        raise UserError(f"{table}: {error.strerror or error}; give the path of an existing file") from error


def _unpack(table: Path, pack: Path, row_file: Path) -> None:
    """Write the pictures, then the rows, so that rows imply pictures; concurrent processes write the same."""
    with atomic(pack) as to, open(to, "wb") as out:
        batches = [_move_pictures(batch, out) for batch in _batches(table)]
    with atomic(row_file) as to, pa.ipc.new_file(str(to), batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _batches(table: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches; the last is empty and gives the columns of a table without rows."""
    kind = table.suffix.removeprefix(".")
    try:
        yield from map(_checked, _of_arrow(table) if kind == "arrow" else _of_parquet(table))
    except (OSError, pa.ArrowException, ValueError) as error:
        raise UserError(f"{table}: cannot be read as {kind} ({one_line(str(error))[:200]}); fetch it again") from error


def _of_parquet(table: Path) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(check_regular(table), pre_buffer=False) as file:  # which would hold the whole table
        yield from file.iter_batches(ROWS, use_threads=False)
        yield pa.RecordBatch.from_pylist([], schema=file.schema_arrow)


def _of_arrow(table: Path) -> Iterator[pa.RecordBatch]:
    """Read a stream, which is what the package datasets saves."""
    with pa.memory_map(check_regular(table)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield from (batch.slice(start, ROWS) for start in range(0, len(batch), ROWS))
        yield pa.RecordBatch.from_pylist([], schema=stream.schema)


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Check texts for UTF-8, and columns' names and kinds, which Arrow does not by itself."""
    batch.validate(full=True)
    for _, _, kind in zip(batch.schema.names, batch.columns, batch.schema.types, strict=True):
        _is_picture(kind)
    return batch


def _move_pictures(batch: pa.RecordBatch, out: IO[bytes]) -> pa.RecordBatch:
    """Write the pictures of rows and return the rows with their locations."""
    typed = zip(batch.columns, batch.schema.types, strict=True)
    location_type = pa.struct([("path", pa.string()), ("offset", pa.int64()), ("length", pa.int64())])
    columns = [
        pa.array(list(_write_pictures(column, out)), location_type) if _is_picture(kind) else column
        for column, kind in typed
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _write_pictures(column: pa.Array, out: IO[bytes]) -> Iterator[dict[str, Any]]:
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

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
from compclip.base.files import atomic, regular
from compclip.data.place import MAX_BYTES
from compclip.evaluate import boxes

ROWS = 64  # decoded at once: a row may hold two large photographs
FOOT = 1 << 20  # bytes at the end of a table, which tell where and how long each of its pages is


def rows(table: Path, pictures: Path) -> list[dict[str, Any]]:
    """The rows of a table, each picture as a reference into the file that `pictures` has of it, or as its name.

    Raises UserError for a table that cannot be read, and for unpacked rows that are damaged.
    """
    pack, kept = (pictures / f"{table.name}.{_hash(table)}.{kind}" for kind in ("pictures", "rows"))
    if not (pack.is_file() and kept.is_file()):
        _unpack(table, pack, kept)
    try:
        with pa.memory_map(str(kept)) as file:
            found = pa.ipc.open_file(file).read_all()
            places = [name for name in found.column_names if _is_picture(found.schema.field(name).type)]
            read: list[dict[str, Any]] = found.to_pylist()
    except (OSError, pa.ArrowException, ValueError) as error:
        raise UserError(f"{kept}: damaged ({one_line(str(error))[:200]}); remove it, and it is made again") from error
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
    """The columns of a table that was read before."""
    if table.suffix == ".parquet":
        return pq.read_schema(regular(table))
    with pa.memory_map(regular(table)) as file, pa.ipc.open_stream(file) as stream:
        return stream.schema


def _reference(pack: Path, place: Mapping[str, Any] | None, number: int) -> str:
    """Where a picture is; where a row only names it the name, where it has none a name that no file has."""
    place = place or {}
    if place.get("length"):
        return boxes.within(str(pack), place["offset"], place["length"])
    return place.get("path") or f"{pack.name}/{number}"


def _hash(table: Path) -> str:
    """Of the table's size and end."""
    try:
        with open(regular(table), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - FOOT))
            return hashlib.sha256(b"%d " % size + file.read()).hexdigest()[:12]
    except OSError as error:
        raise UserError(f"{table}: {error.strerror or error}; give the path of an existing file") from error


def _unpack(table: Path, pack: Path, kept: Path) -> None:
    """Pictures first: rows that are there have pictures. Who else unpacks the same writes the same."""
    with atomic(pack) as to, open(to, "wb") as out:
        parts = [_placed(batch, out) for batch in _batches(table)]
    with atomic(kept) as to, pa.ipc.new_file(str(to), parts[0].schema) as writer:
        for part in parts:
            writer.write_batch(part)


def _batches(table: Path) -> Iterator[pa.RecordBatch]:
    """The rows, some at a time; at last none, which tells the columns of a table without rows."""
    kind = table.suffix.removeprefix(".")
    try:
        yield from map(_checked, _of_arrow(table) if kind == "arrow" else _of_parquet(table))
    except (OSError, pa.ArrowException, ValueError) as error:
        raise UserError(f"{table}: cannot be read as {kind} ({one_line(str(error))[:200]}); fetch it again") from error


def _of_parquet(table: Path) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(regular(table), pre_buffer=False) as file:  # which would hold the whole table
        yield from file.iter_batches(ROWS, use_threads=False)
        yield pa.RecordBatch.from_pylist([], schema=file.schema_arrow)


def _of_arrow(table: Path) -> Iterator[pa.RecordBatch]:
    """What the package datasets saves is a stream."""
    with pa.memory_map(regular(table)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield from (batch.slice(start, ROWS) for start in range(0, len(batch), ROWS))
        yield pa.RecordBatch.from_pylist([], schema=stream.schema)


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Arrow does not ask by itself whether a file's texts are UTF-8, nor the names and kinds of its columns."""
    batch.validate(full=True)
    for _, _, kind in zip(batch.schema.names, batch.columns, batch.schema.types, strict=True):
        _is_picture(kind)
    return batch


def _placed(batch: pa.RecordBatch, out: IO[bytes]) -> pa.RecordBatch:
    """The rows with their pictures' places, the pictures themselves written."""
    typed = zip(batch.columns, batch.schema.types, strict=True)
    columns = [_written(column, out) if _is_picture(kind) else column for column, kind in typed]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _written(column: pa.Array, out: IO[bytes]) -> pa.Array:
    place = pa.struct([("path", pa.string()), ("offset", pa.int64()), ("length", pa.int64())])
    return pa.array(list(_places(column, out)), place)


def _places(column: pa.Array, out: IO[bytes]) -> Iterator[dict[str, Any]]:
    for value in column:
        held = value.as_py()
        raw, path = (held.get("bytes"), held.get("path")) if isinstance(held, dict) else (held, None)
        if raw and len(raw) <= MAX_BYTES:
            yield {"path": path, "offset": out.tell(), "length": len(raw)}
            out.write(raw)
        else:
            yield {"path": None if raw else path, "offset": 0, "length": 0}


def _is_picture(kind: pa.DataType) -> bool:
    """Bytes, a picture's {bytes, path}, or a place of ours."""
    if pa.types.is_struct(kind):
        names = {kind.field(i).name for i in range(kind.num_fields)}
        return names in ({"bytes", "path"}, {"path", "offset", "length"})
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)

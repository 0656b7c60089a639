"""Read tables of pictures and texts row by row: CSV, TSV, JSON lines, Parquet and Arrow.

    for path in list_tables("data/train-*.csv"):
        for row in read_rows(path, ["filepath", "title"], counts):
            row.number, row.values["title"]

A value is a text (numbers as they are written, "" for none), a list of texts, or a `TablePicture` whose bytes are
in the table. Pictures stay there: Arrow has their bytes as they are, of Parquet a row group is decoded when one of its
pictures is wanted (`parquet_cells`). CSV and JSON lines may be compressed (.gz, .bz2, .zst), with a byte order mark, in
UTF-8 or UTF-16. A row that cannot be used is left out and counted by reason, with the place of the first.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, AnyStr, NamedTuple, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from compclip.base import files
from compclip.base.errors import UserError, one_line, unknown
from compclip.base.path_lists import expand_paths
from compclip.data.parquet_cells import cell_path, open_file
from compclip.data.sample import ImageLocation

SEPARATED = (".csv", ".tsv")
JSON_LINES = (".jsonl", ".jsonlines", ".ndjson")
PARQUET = (".parquet",)
ARROW = (".arrow", ".feather")
SUFFIXES = SEPARATED + JSON_LINES + PARQUET + ARROW
COMPRESSED = (".gz", ".bz2", ".zst")
# The usual names of columns: open_clip's, the hub's imagefolder's, and those of published tables.
PICTURE_COLUMNS = ("filepath", "image", "file_name", "image_path", "filename", "img_path", "path", "jpg", "img")
CAPTION_COLUMNS = ("title", "caption", "text", "captions", "texts", "txt", "sentence", "sentences")
BATCH_ROWS = 64  # decoded at once: a row may hold two large photographs
DECODED_BYTES = 1 << 27  # that they are to have at most, where a single row has no more
HASHED = 1 << 14  # bytes at either end of a picture that tell it from others of its name
MAX_GROWTH = 200  # times what a column has in the file
TEXT_GROWTH = 100  # times a compressed text's size in the file
LONGEST_LINE = 1 << 24  # characters
OPEN_LINES = 100  # of a text in quotes: more are a quote that was never closed
PICTURE_NAME = re.compile(r"\.(?:jpe?g|png|webp|gif|bmp|tiff?)\s*\Z", re.IGNORECASE)
OPEN_END = re.compile(r"[1-9][0-9]*-")  # a column without a header, and all behind it
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
Lines = Iterator[str]
NumberedRows = Iterator[tuple[int, list[str] | None]]  # with the number of the first line of each


@dataclass(frozen=True)
class TableForm:
    """How CSV and TSV files are written, where that cannot be found out."""

    separator: str = ""  # "": a tab where the first line has one, else the most frequent of , ; |
    quotes: bool = True  # whether " encloses texts that hold the separator or a line's end
    # without one rows may differ in length; columns are called 1, 2, …, and 2- is all from the second
    header: bool = True


@dataclass(frozen=True, slots=True)
class TablePicture(ImageLocation):
    """A picture whose bytes are in a table, the name that the table has for it, and a hash of its content."""

    name: str = ""
    content: bytes = b""


class TableRow(NamedTuple):
    """A row by its line, or its number from 1 where a table has no lines, and its values by column."""

    number: int
    values: dict[str, Any]


class RowFaults:
    """Rows of a file that are left out, or read otherwise than it says, by reason."""

    def __init__(self, path: Path) -> None:
        unit = "line" if format_suffix(path) in SEPARATED + JSON_LINES else "row"
        self._where = f"{path.name}: {unit}"
        self._numbers: dict[str, list[int]] = {}

    def add(self, reason: str, number: int) -> None:
        """Count a row."""
        count = self._numbers.setdefault(reason, [0, number])
        count[0] += 1

    def move_to(self, counts: Counter) -> None:
        """Add to `counts` how many rows there are of each reason, under a name that says where the first is."""
        for reason, (count, first) in self._numbers.items():
            counts[f"{reason} (first: {self._where} {first})"] += count


def format_suffix(path: Path) -> str:
    """Return the ending that says a table's format, in lower case, without that of its compression."""
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return inner.suffix.lower()


def list_tables(names: str | Iterable[str]) -> list[Path]:
    """Return the tables of a file, a folder, a pattern (`base.path_lists`), or several of them, in their order.

    Raises UserError for a name without a table.
    """
    tables: dict[Path, None] = {}
    for name in [names] if isinstance(names, str) else names:
        for path in map(Path, expand_paths(name)):
            tables.update(dict.fromkeys(_list_folder(path) if path.is_dir() else [path]))
    for path in tables:
        if not path.exists() or format_suffix(path) not in SUFFIXES:
            raise UserError(f"{path}: no such table; correct the name, or give {', '.join(SUFFIXES)}, or their folder")
    return list(tables)


def _list_folder(folder: Path) -> list[Path]:
    paths = [path for path in sorted(folder.rglob("*")) if format_suffix(path) in SUFFIXES and path.is_file()]
    formats = set(map(format_suffix, paths))
    if len(formats) != 1:
        kinds = f"tables of several formats ({', '.join(sorted(formats))})" if formats else "no table"
        raise UserError(f"{folder}: holds {kinds}; give the file, or a pattern as {folder}/*.csv")
    return paths


def read_columns(path: Path, form: TableForm = TableForm()) -> list[str]:
    """Return the names of a table's columns. Raises UserError for a file that is no such table, or empty."""
    suffix = format_suffix(path)
    if suffix in PARQUET + ARROW:
        return list(read_schema(path).names)
    with _open_lines(path) as lines:
        if suffix in SEPARATED:
            return _open_reader(path, lines, form, RowFaults(path))[0]
        for record in filter(None, map(_parse_record, lines)):
            return list(record)
    raise UserError(f"{path}: no line is a JSON object; correct the file or its ending")


def choose_column(
    names: Sequence[str], name: str, usual: Sequence[str], option: str, path: Path, form: TableForm = TableForm()
) -> str:
    """Return the column called `name`, or by default the first of the `usual` ones, in any case.

    Raises UserError, naming the option to set, where there is none.
    """
    if name:
        if name not in names and not _is_open_end(name, form):
            raise unknown("column", name, names, f"{path}: {option}")
        return name
    by_lower_case = {column.strip().lower(): column for column in reversed(names)}
    for candidate in usual:
        if candidate.lower() in by_lower_case:
            return by_lower_case[candidate.lower()]
    columns = ", ".join(map(repr, names[:20]))
    raise UserError(f"{path}: which column is it? set {option} to one of {columns}, or correct the separator")


def read_rows(path: Path, columns: Sequence[str], counts: Counter, form: TableForm = TableForm()) -> Iterator[TableRow]:
    """Give the values of `columns` of every usable row, in order; memory does not grow with the table.

    Counted: `empty_rows`, `not_utf8_rows`, and `damaged_rows`: of another length than the header, or no JSON object;
    and `open_quotes`, which are read as parts of texts, each line by itself.
    Raises UserError for a file that cannot be read at all, and for a column that it does not have.
    """
    suffix = format_suffix(path)
    faults = RowFaults(path)
    try:
        if suffix in SEPARATED:
            yield from _read_separated(path, columns, faults, form)
        elif suffix in JSON_LINES:
            yield from _read_json_lines(path, columns, faults)
        else:
            yield from _read_arrays(path, columns, faults)
    finally:
        faults.move_to(counts)


# --- CSV, TSV, JSON lines ---------------------------------------------------------------------------------------


@contextmanager
def _open_lines(path: Path) -> Iterator[Lines]:
    """Open a text's lines; bytes that are not UTF-8 become halves of surrogate pairs, which a row is counted for."""
    with _damage_named(path):
        with pa.input_stream(files.check_regular(path)) as stream:
            encoding = "utf-16" if stream.read(2) in UTF16_MARKS else "utf-8-sig"
        with pa.input_stream(str(path)) as stream:
            yield _bound_lines(path, io.TextIOWrapper(stream, encoding, errors="surrogateescape", newline=""))


def _bound_lines(path: Path, file: TextIO) -> Lines:
    """Give the lines of a file. Raises UserError where it grows as no captions do: 15 kB may be millions of lines."""
    left = max(1 << 20, TEXT_GROWTH * path.stat().st_size) if path.suffix.lower() in COMPRESSED else math.inf
    for line in iterate_lines(file):
        left -= len(line)
        if left < 0:
            raise UserError(f"{path}: grows to more than {TEXT_GROWTH} times its size; leave it out, or unpack it")
        yield line


def iterate_lines(file: IO[AnyStr]) -> Iterator[AnyStr]:
    """Give the lines of a file; one of more than `LONGEST_LINE` characters comes as several."""
    while line := file.readline(LONGEST_LINE):
        yield line


def _open_reader(path: Path, lines: Lines, form: TableForm, faults: RowFaults) -> tuple[list[str], NumberedRows]:
    """Return the names of a CSV's columns, and its rows; quotes that stay open are counted."""
    skipped = 0
    first = ""
    for first in lines:
        if first.strip():
            break
        skipped += 1
    if not first.strip():
        raise UserError(f"{path}: holds no row; write it again")
    separator = form.separator or ("\t" if "\t" in first else max(",;|", key=first.count))
    text_lines = itertools.chain([first], lines)
    options = {"delimiter": separator, "quoting": csv.QUOTE_MINIMAL if form.quotes else csv.QUOTE_NONE}
    rows = _number_rows(_RawLines(text_lines), options, path, skipped + 1, faults)
    if form.header:
        return next(rows)[1] or [], rows
    first_row = next(rows)
    names = list(map(str, range(1, len(first_row[1] or ()) + 1)))
    return names, itertools.chain([first_row], rows)


class _RawLines:
    """Lines as a reader takes them: those of its row, and whether it wanted one behind the last."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.taken: list[str] = []
        self.has_ended = False

    def __iter__(self) -> Iterator[str]:
        """Give them one by one."""
        for line in self._lines:
            self.taken.append(line)
            yield line
        self.has_ended = True


def _number_rows(lines: _RawLines, options: dict[str, Any], path: Path, number: int, faults: RowFaults) -> NumberedRows:
    """Give rows with the numbers of their first lines; None for one that the reader refuses.

    Lines that a quote swallows which is no enclosing one are read each by itself, and the quote is counted.
    """
    reader = csv.reader(lines, **options)
    width = 0
    while True:
        lines.taken.clear()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            row = None
        if len(lines.taken) > OPEN_LINES + 1:
            fault = f"a quote stays open over {OPEN_LINES} lines"
            raise UserError(f"{path}: line {number}: {fault}; close it, or set quotes: false")
        alone = [_read_alone(line, options) for line in lines.taken if len(lines.taken) > 1 or lines.has_ended]
        if lines.has_ended or _hides_rows(alone, options["delimiter"], width):
            faults.add("open_quotes", number)
            yield from enumerate(alone, number)
        else:
            yield number, row
        width = width or len(row or ())
        number += len(lines.taken)


def _hides_rows(lines: Sequence[list[str] | None], delimiter: str, width: int) -> bool:
    """Return whether a line within a quoted text is a row: as long, and naming a picture where the first one does.

    `lines` are those of a row, each read by itself. With tabs its length is enough: hardly a text has one.
    """
    if len(lines) < 2:
        return False
    first, *others = [line or [] for line in lines]
    pictures = [column for column, text in enumerate(first[:width]) if PICTURE_NAME.search(text)]
    if not pictures and delimiter != "\t":
        return False
    rows = [row for row in others if len(row) == width > 1]
    return any(all(PICTURE_NAME.search(row[column]) for column in pictures) for row in rows)


def _read_alone(line: str, options: dict[str, Any]) -> list[str] | None:
    """Return the row of a line; quotes that it leaves open belong to its texts."""
    for quoting in (options["quoting"], csv.QUOTE_NONE):
        try:
            return next(csv.reader([line], **(options | {"quoting": quoting, "strict": True})))
        except csv.Error:
            continue
    return None


def _read_separated(path: Path, columns: Sequence[str], faults: RowFaults, form: TableForm) -> Iterator[TableRow]:
    with _open_lines(path) as lines:
        names, rows = _open_reader(path, lines, form, faults)
        slices = [_find_columns(name, names, form, path) for name in columns]
        for number, row in rows:
            if row is None or (form.header and len(row) not in (0, len(names))):
                faults.add("damaged_rows", number)
                continue
            if not any(row):
                faults.add("empty_rows", number)
                continue
            values = [row[position] for position in slices]
            if any(map(files.has_lone, itertools.chain.from_iterable(values))):
                faults.add("not_utf8_rows", number)
            elif not all(values):
                faults.add("damaged_rows", number)
            else:
                pairs = zip(slices, values, strict=True)
                texts = [value if position.stop is None else value[0] for position, value in pairs]
                yield TableRow(number, dict(zip(columns, texts, strict=True)))


def _is_open_end(name: str, form: TableForm) -> bool:
    return not form.header and bool(OPEN_END.fullmatch(name))


def _find_columns(name: str, names: Sequence[str], form: TableForm, path: Path) -> slice:
    """Return the place of a column, or without a header of all columns from one on."""
    if _is_open_end(name, form):
        return slice(int(name[:-1]) - 1, None)
    position = names.index(_check_column(name, names, path))
    return slice(position, position + 1)


def _check_column(name: str, names: Sequence[str], path: Path) -> str:
    if name not in names:
        raise unknown("column", name, names, str(path))
    return name


def _read_json_lines(path: Path, columns: Sequence[str], faults: RowFaults) -> Iterator[TableRow]:
    with _open_lines(path) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                faults.add("empty_rows", number)
                continue
            if files.has_lone(line):
                faults.add("not_utf8_rows", number)
                continue
            record = _parse_record(line)
            row = None if record is None else [record.get(name) for name in columns]
            yield from _build_row(number, columns, row, faults)


def _parse_record(line: str) -> dict[str, Any] | None:
    """Return the object of a line; None for anything else."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _build_row(number: int, columns: Sequence[str], row: Sequence[Any] | None, faults: RowFaults) -> Iterator[TableRow]:
    """Give the row of values that may be anything, or count it."""
    try:
        values = [_to_texts(value) for value in row or ()]
    except ValueError as error:
        faults.add("not_utf8_rows" if isinstance(error, UnicodeError) else "damaged_rows", number)
        return
    if row:
        yield TableRow(number, dict(zip(columns, values, strict=True)))
    else:
        faults.add("damaged_rows", number)


def _to_texts(value: Any) -> Any:
    """Return a value as a text, a list of texts, or a picture's place. Raises ValueError for others."""
    if isinstance(value, str):
        return files.replace_lone(value)
    if isinstance(value, bytes):
        return value.decode()
    if value is None or value != value:  # not a number, as pandas writes what is missing
        return ""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        values = [_to_texts(item) for item in value if item is not None]
        return [text for text in values if isinstance(text, str)]
    if isinstance(value, TablePicture):
        return value
    raise ValueError("no text")


# --- Parquet and Arrow ------------------------------------------------------------------------------------------


def read_schema(path: Path) -> pa.Schema:
    """Return the columns of a Parquet or Arrow file with their types.

    Raises UserError where it is damaged, or two columns have one name.
    """
    with _damage_named(path):
        if format_suffix(path) in PARQUET:
            schema = pq.read_schema(files.check_regular(path))
        else:
            with pa.memory_map(files.check_regular(path)) as source:
                schema = _open_arrow(source).schema
    for name, count in Counter(schema.names).items():
        if count > 1:
            raise UserError(f"{path}: {count} columns are called {name!a}; rename them")
    return schema


def list_picture_columns(path: Path) -> list[str]:
    """Return the columns of a Parquet or Arrow file that have pictures inside; of another table none."""
    if format_suffix(path) not in PARQUET + ARROW:
        return []
    return [field.name for field in read_schema(path) if _holds_pictures(field.type)]


def _holds_pictures(kind: pa.DataType) -> bool:
    """Return whether a column has pictures inside: {bytes, path}, as the hub keeps them, or bytes alone."""
    if pa.types.is_struct(kind):
        return kind.get_field_index("bytes") >= 0
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException, ValueError, KeyError, OverflowError) as error:  # as dates beyond 9999
        kind = format_suffix(path).removeprefix(".")
        raise UserError(f"{path}: cannot be read as {kind} ({one_line(str(error))[:200]}); fetch it again") from error


def _read_arrays(path: Path, columns: Sequence[str], faults: RowFaults) -> Iterator[TableRow]:
    schema = read_schema(path)
    for name in columns:
        _check_type(schema.field(_check_column(name, schema.names, path)), path)
    for number, row in enumerate(_iterate_values(path, columns), 1):
        yield from _build_row(number, columns, row, faults)


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Give every row of a Parquet or Arrow file by column, its values as they are, and of pictures their places.

    Dates are left out: Python has none beyond the year 9999, and nobody's captions are dates.
    """
    names = [field.name for field in read_schema(path) if not pa.types.is_temporal(field.type)]
    for values in _iterate_values(path, names, is_checked=True):
        yield dict(zip(names, values, strict=True))


def _iterate_values(path: Path, columns: Sequence[str], is_checked: bool = False) -> Iterator[tuple[Any, ...]]:
    """Give the values of every row; `is_checked`: a text that is not UTF-8 is a fault of the whole file."""
    number = 0
    with _damage_named(path):
        for batch, base in _iterate_batches(path, columns):
            if is_checked:
                batch.validate(full=True)  # Arrow does not check by itself that texts are UTF-8
            values = [_column_values(batch.column(name), str(path), name, number, base) for name in columns]
            yield from zip(*values, strict=True)
            number += len(batch)


def _check_type(field: pa.Field, path: Path) -> None:
    kind = field.type.value_type if _is_list(field.type) or pa.types.is_dictionary(field.type) else field.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if not (is_text or pa.types.is_integer(kind) or pa.types.is_null(kind) or _holds_pictures(field.type)):
        raise UserError(f"{path}: column {field.name!r} holds {field.type}, no text; name another one")


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _iterate_batches(path: Path, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Give batches, and of Arrow the address at which the file is mapped (0 of Parquet)."""
    if format_suffix(path) in PARQUET:
        with open_file(files.check_regular(path)) as table:
            for batch in table.iter_batches(
                _count_rows(table, columns, path), columns=list(dict.fromkeys(columns)), use_threads=False
            ):
                yield batch, 0
        return
    with pa.memory_map(files.check_regular(path)) as source:
        base = source.read_buffer().address
        source.seek(0)
        reader = _open_arrow(source)
        is_stream = isinstance(reader, pa.RecordBatchStreamReader)
        for batch in reader if is_stream else map(reader.get_batch, range(reader.num_record_batches)):
            chosen = batch.select(list(dict.fromkeys(columns)))
            chosen.validate(full=True)  # a damaged file may say that a text is anywhere in memory
            yield chosen, base


def _count_rows(table: pq.ParquetFile, columns: Sequence[str], path: Path) -> int:
    """Return how many rows to decode at once, by the largest mean size of a cell in any group of rows.

    Raises UserError for a column that grows as no texts and pictures do: its pages are decoded whole.
    """
    largest = 1
    for group in map(table.metadata.row_group, range(table.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            name = chunk.path_in_schema.partition(".")[0]
            if name not in columns:
                continue
            if chunk.total_uncompressed_size > max(DECODED_BYTES, MAX_GROWTH * chunk.total_compressed_size):
                size = chunk.total_uncompressed_size >> 20
                raise UserError(f"{path}: column {name!a} grows to {size} MiB when it is read; leave it out")
            is_repeated = "." in chunk.path_in_schema and chunk.has_dictionary_page  # a row may have all of it
            largest = max(largest, chunk.total_uncompressed_size // (1 if is_repeated else max(1, group.num_rows)))
    return max(1, min(BATCH_ROWS, DECODED_BYTES // largest))


def _open_arrow(source: pa.NativeFile) -> Any:
    """Open Arrow's file format, or its stream, which the package datasets saves."""
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)


def _column_values(column: pa.Array, path: str, name: str, start: int, base: int) -> list[Any]:
    """Return the values of a batch that begins behind `start` rows; of a picture its place, or its path."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return _locate_pictures(column, path, name, start, base) if _holds_pictures(kind) else _list_texts(column)


def _list_texts(column: pa.Array) -> list[Any]:
    """Return the values of a column; one that stands in many rows is one object."""
    if pa.types.is_dictionary(column.type):
        return _spread(column, _list_texts)
    try:
        return column.to_pylist()
    except UnicodeDecodeError:  # Arrow does not check that texts are UTF-8
        return column.cast(pa.large_list(pa.large_binary()) if _is_list(column.type) else pa.large_binary()).to_pylist()


def _spread(column: pa.DictionaryArray, convert: Callable[[pa.Array], list[Any]]) -> list[Any]:
    """Convert each different value of a column once, and give that of every row; None for one without."""
    numbers = column.indices.unique().drop_null()
    converted = dict(zip(numbers.to_pylist(), convert(column.dictionary.take(numbers)), strict=True))
    return list(map(converted.get, column.indices.to_pylist()))


def _locate_pictures(column: pa.Array, path: str, name: str, start: int, base: int) -> list[Any]:
    """Return each picture's place: of Arrow its bytes in the file, mapped at `base`; of Parquet its cell."""
    is_struct = pa.types.is_struct(column.type)
    content = column.field("bytes") if is_struct else column
    has_paths = is_struct and column.type.get_field_index("path") >= 0
    paths = map(_to_texts, _list_texts(column.field("path"))) if has_paths else [""] * len(column)
    sizes_and_hashes = _measure_pictures(content)
    if base:
        offsets = _find_offsets(content.cast(pa.large_binary()), path, base)
    else:
        offsets = list(range(start, start + len(column)))
        path = cell_path(path, f"{name}.bytes" if is_struct else name)
    cells = []
    for name, offset, measured in zip(paths, offsets, sizes_and_hashes, strict=True):
        cells.append(TablePicture(path, offset, measured[0], name, measured[1]) if measured else name)
    return cells


def _measure_pictures(content: pa.Array) -> list[tuple[int, bytes] | None]:
    """Return the size and a hash of each picture; None for one without bytes."""
    if pa.types.is_dictionary(content.type):
        return _spread(content, _measure_pictures)
    values = content.cast(pa.large_binary())
    lengths = pc.fill_null(pc.binary_length(values), 0).to_pylist()
    return [(size, _hash_ends(value)) if size else None for size, value in zip(lengths, values, strict=True)]


def _hash_ends(value: pa.LargeBinaryScalar) -> bytes:
    """Return a hash of a picture's length, its first and its last bytes; Arrow's file need not be read whole for it."""
    content = memoryview(value.as_buffer())
    digest = hashlib.blake2b(b"%d " % len(content), digest_size=16)
    digest.update(content[:HASHED])
    digest.update(content[-HASHED:])
    return digest.digest()


def _find_offsets(content: pa.LargeBinaryArray, path: str, base: int) -> list[int]:
    """Return where the values of a mapped column begin in its file."""
    _, starts, data = content.buffers()
    if not data:  # no row has bytes
        return [0] * len(content)
    first = data.address - base
    if not 0 <= first <= os.path.getsize(path):
        raise UserError(f"{path}: is compressed, and pictures are read from where they lie; write it uncompressed")
    return (np.frombuffer(starts, np.int64)[content.offset :][: len(content)] + first).tolist()

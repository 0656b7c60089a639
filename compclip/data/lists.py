"""Rows of a list of captions, whatever its format: csv, tsv, jsonl, parquet, a folder of one of them, of .txt or .json.

A list is read row by row, so that its size does not matter. A row that cannot be used is counted and left out; what is
wrong with the whole list is an error.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from compclip.base import json_text, surrogates
from compclip.base.errors import UserError, one_line, unknown
from compclip.base.files import read_bytes, regular
from compclip.config.captions import FROM, Captions
from compclip.config.texts import BY_CAPTION
from compclip.data import literals
from compclip.text import sentences

Row = tuple[str, Sequence[str]]  # what it is joined by, and its texts, as the list has them
LONGEST = 1 << 24  # characters of a line; what is longer is several
ROWS = 2048  # of a parquet file that are decoded at once


def rows(cfg: Captions, counts: Counter) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Key and captions of every row that can be used, in the order of the list.

    Counted: `captions_rows`, and of those that are left out `captions_damaged` (no row of this list's form),
    `captions_not_utf8`, `captions_without_key`, `captions_empty`. Raises UserError for a list that is missing, of an
    unknown format, or has no such column.
    """
    for path in files(cfg.file):
        for key, texts in READERS[path.suffix](path, cfg, counts):
            key = join_key(_as_prepared(key) if cfg.on == BY_CAPTION else key, cfg.on)
            try:
                captions = _captions(literals.all_texts(texts) if cfg.lists else texts, cfg)
            except ValueError:
                counts["captions_damaged"] += 1
                continue
            if key and captions:
                yield key, captions
            else:
                counts["captions_empty" if key else "captions_without_key"] += 1


def join_key(text: str, on: str) -> str:
    """What is compared: the text without white space around it, of a picture's path its last part."""
    text = text.strip()
    return text.rpartition("/")[2] if on == "image" else text


def _as_prepared(caption: str) -> str:
    """A caption as `recaption` leaves it, by which a list finds it."""
    return sentences.clean(one_line(caption))


def files(name: str) -> list[Path]:
    """The files of a list. Raises UserError where there is none, or none that we read."""
    path = Path(name)
    if path.is_dir():
        found = [files for suffix in READERS if (files := sorted(path.glob(f"*{suffix}")))]
        if len(found) == 1 or [paths[0].suffix for paths in found] == [".txt", ".json"]:  # as img2dataset's folders
            return found[0]
        raise UserError(f"{name}: a folder of captions holds files of one of {KINDS}; this has none, or several")
    if not path.exists():
        raise UserError(f"{name}: no such list of captions or texts; fetch it, or correct `file`")
    if path.suffix not in READERS or path.suffix in NAMED:
        raise UserError(
            f"{name}: captions are read from a file or a folder of {KINDS}, {' and '.join(NAMED)} from a folder alone"
        )
    return [Path(regular(path))]


def _captions(texts: Sequence[str], cfg: Captions) -> tuple[str, ...]:
    kept = tuple(dict.fromkeys(text for text in map(one_line, texts) if text and text not in cfg.skip))
    if not cfg.sentences or not kept:
        return kept
    return (" ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in kept),)


def _separated(path: Path, cfg: Captions, counts: Counter) -> Iterator[Row]:
    """Python's reader and not Arrow's: a stray quotation mark costs it a few rows, and rows may differ in length."""
    with open(regular(path), encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        found = _fields(csv.reader(_lines(file), delimiter="\t" if path.suffix == ".tsv" else ","), counts)
        first = next(found, None)
        if first is None:
            raise UserError(f"{path}: holds no row; fetch it again")
        names = first if cfg.header else [str(n) for n in range(1, len(first) + 1)]
        key, columns = _places(names, cfg, path)
        for row in found if cfg.header else _after(first, found):
            counts["captions_rows"] += 1
            if key.start >= len(row) or (cfg.header and len(row) != len(names)):
                counts["captions_damaged"] += 1
            elif any(map(surrogates.has, row)):
                counts["captions_not_utf8"] += 1
            else:
                yield row[key.start], [text for column in columns for text in row[column]]


def _lines(file: Any) -> Iterator[str]:
    while line := file.readline(LONGEST):
        yield line


def _fields(reader: Iterator[list[str]], counts: Counter) -> Iterator[list[str]]:
    """The reader's rows; one that it cannot read is counted, and it goes on behind it."""
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            counts["captions_rows"] += 1
            counts["captions_damaged"] += 1
        else:
            if row:
                yield row


def _after(first: list[str], rest: Iterator[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rest


def _places(names: Sequence[str], cfg: Captions, path: Path) -> tuple[slice, list[slice]]:
    """Where key and captions stand in a row."""
    key, columns = chosen(names, cfg, path)
    return slice(names.index(key), names.index(key) + 1), [_place(names, column) for column in columns]


def _place(names: Sequence[str], column: str) -> slice:
    if column not in names:  # as `2-`
        return slice(int(column[:-1]) - 1, None)
    return slice(names.index(column), names.index(column) + 1)


def chosen(names: Iterable[str], cfg: Captions, path: Path) -> tuple[str, list[str]]:
    """The columns of key and captions. Raises UserError for one that the list does not have."""
    names = list(names)
    key = cfg.key_column or next((name for name in cfg.JOINS[cfg.on] if name in names), "")
    if not key:
        asked = f"{cfg.SECTION}.key_column"
        raise UserError(f"{path}: which column holds the {cfg.on}? set {asked} to one of {_told(names)}")
    _check_named(names, cfg, path)
    for where, name in (("key_column", key), *(("column", name) for name in cfg.column)):
        if name not in names and (cfg.header or not FROM.fullmatch(name)):
            raise unknown("column", name, names, f"{path}: {cfg.SECTION}.{where}")
    return key, cfg.column


def _check_named(names: Sequence[str], cfg: Captions, path: Path) -> None:
    if not cfg.column:
        held = cfg.SECTION
        raise UserError(f"{path}: which column holds the {held}? set {held}.column to one of {_told(names)}")


def _told(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20]))


def _json_lines(path: Path, cfg: Captions, counts: Counter) -> Iterator[Row]:
    columns: tuple[str, list[str]] | None = None
    for line in _raw_lines(path):
        counts["captions_rows"] += 1
        try:
            record = json_text.value(line.decode("utf-8"), str(path))
        except UnicodeDecodeError:
            counts["captions_not_utf8"] += 1
            continue
        except UserError:
            record = None
        if not isinstance(record, dict):
            counts["captions_damaged"] += 1
            continue
        columns = columns or chosen(record, cfg, path)
        yield from _texts(record.get(columns[0]), [record.get(name) for name in columns[1]], counts)


def _raw_lines(path: Path) -> Iterator[bytes]:
    with open(regular(path), "rb") as file:
        while line := file.readline(LONGEST):
            if line.strip():
                yield line


def _texts(key: Any, values: Sequence[Any], counts: Counter) -> Iterator[Row]:
    """One row of values that may be anything: a text, several, none, or no text at all."""
    texts = [text for value in values for text in (value if isinstance(value, list) else [value]) if text is not None]
    if isinstance(key, (str, int, type(None))) and all(isinstance(text, str) for text in texts):
        yield surrogates.repaired("" if key is None else str(key)), [surrogates.repaired(text) for text in texts]
    else:
        counts["captions_damaged"] += 1


def _parquet(path: Path, cfg: Captions, counts: Counter) -> Iterator[Row]:
    try:
        with pq.ParquetFile(regular(path), pre_buffer=False) as file:  # which would hold whole columns
            key, columns = chosen(file.schema_arrow.names, cfg, path)
            for name in (key, *columns):
                _check_type(file.schema_arrow.field(name), path)
            for batch in file.iter_batches(ROWS, columns=list(dict.fromkeys((key, *columns)))):
                counts["captions_rows"] += len(batch)
                found = [_bytes(batch.column(name)) for name in (key, *columns)]
                for row in zip(*found, strict=True):
                    yield from _decoded(row, counts)
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: cannot be read as parquet ({one_line(str(error))[:200]}); fetch it again") from error


def _check_type(field: pa.Field, path: Path) -> None:
    kind = field.type.value_type if _is_list(field.type) or pa.types.is_dictionary(field.type) else field.type
    if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise UserError(f"{path}: column {field.name!r} holds {field.type}, no text; name another one")


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _is_text(kind: pa.DataType) -> bool:
    tests: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary,
        pa.types.is_large_binary, pa.types.is_binary_view,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def _bytes(column: pa.Array) -> list[Any]:
    """A column's texts as bytes: Arrow does not look whether a file's are UTF-8."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        column = column.cast(pa.string())
    elif pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    return column.cast(pa.large_list(pa.large_binary()) if _is_list(column.type) else pa.large_binary()).to_pylist()


def _decoded(row: Sequence[Any], counts: Counter) -> Iterator[Row]:
    try:
        key, *texts = map(_plain, row)
    except UnicodeDecodeError:
        counts["captions_not_utf8"] += 1
        return
    yield from _texts(key, texts, counts)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [text.decode() for text in value if text is not None]
    return None if value is None else value.decode()


def _text_file(path: Path, cfg: Captions, counts: Counter) -> Iterator[Row]:
    """The first line of a file, which is named after its key."""
    counts["captions_rows"] += 1
    try:
        yield path.stem, [line for line in read_bytes(path).decode("utf-8").splitlines() if line.strip()][:1]
    except UnicodeDecodeError:
        counts["captions_not_utf8"] += 1
    except UserError:  # a folder, a pipe or a link to nowhere
        counts["captions_damaged"] += 1


def _json_file(path: Path, cfg: Captions, counts: Counter) -> Iterator[Row]:
    """The texts of a file that is named after its key: a list of them, or an object with some by name."""
    counts["captions_rows"] += 1
    try:
        found = json_text.value(read_bytes(path).decode("utf-8"), str(path))
    except UnicodeDecodeError:
        counts["captions_not_utf8"] += 1
        return
    except UserError:  # no JSON, a folder, a pipe or a link to nowhere
        found = None
    if isinstance(found, dict):
        _check_named(list(found), cfg, path)
        found = [text for name in cfg.column for text in _several(found.get(name))]
    if isinstance(found, list):
        yield from _texts(path.stem, found, counts)
    else:
        counts["captions_damaged"] += 1


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


READERS: dict[str, Callable[[Path, Captions, Counter], Iterator[Row]]] = {
    ".csv": _separated,
    ".tsv": _separated,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
    ".txt": _text_file,
    ".json": _json_file,
}
NAMED = (".txt", ".json")  # a file for each key, called by it
KINDS = ", ".join(READERS)

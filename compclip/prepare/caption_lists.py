"""Read the rows of a list of captions: csv, tsv, jsonl, parquet, a folder of one of them, or of .txt or .json files.

A list is read row by row, so that its size does not matter. A row that cannot be used is counted and left out; a fault
of the whole list is an error.
"""

from __future__ import annotations

import ast
import csv
import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from compclip.base import files
from compclip.base.errors import UserError, one_line, unknown
from compclip.base.files import check_regular, read_bytes
from compclip.config.released_lists import BY_CAPTION, FROM, Captions
from compclip.text import sentences
from compclip.text.caption_cleaning import clean_caption

ListRow = tuple[str, Sequence[str]]  # the key that a row is joined by, and its texts, as the list has them
LONGEST_LINE = 1 << 24  # characters
PARQUET_ROWS = 2048  # that are decoded at once
LONGEST_LITERAL = 1 << 16  # characters: Python's parser takes some hundred times as many bytes
LITERAL_ERRORS = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)  # documented for `literal_eval`


def read_rows(cfg: Captions, counts: Counter) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give key and captions of every usable row, in the order of the list.

    Counted: `captions_rows`, and of those that are left out `captions_damaged` (no row of this list's form),
    `captions_not_utf8`, `captions_without_key`, `captions_empty`. Raises UserError for a list that is missing, of an
    unknown format, or has no such column.
    """
    for path in list_files(cfg.file):
        for key, texts in READERS[path.suffix](path, cfg, counts):
            if cfg.on == BY_CAPTION:  # as `recaption` leaves captions
                key = sentences.clean(clean_caption(key))
            key = join_key(key, cfg.on)
            try:
                if cfg.lists:  # an empty text is an empty list
                    texts = [text for written in texts if written.strip() for text in parse_texts(written)]
                captions = _clean_texts(texts, cfg)
            except ValueError:
                counts["captions_damaged"] += 1
                continue
            if key and captions:
                yield key, captions
            else:
                counts["captions_empty" if key else "captions_without_key"] += 1


def join_key(text: str, on: str) -> str:
    """Return what is compared: the text without white space around it, of a picture's path its last part."""
    text = text.strip()
    return text.rpartition("/")[2] if on == "image" else text


def list_files(name: str) -> list[Path]:
    """Return the files of a list. Raises UserError where there is none of a format that is read."""
    path = Path(name)
    if path.is_dir():
        groups = [files for suffix in READERS if (files := sorted(path.glob(f"*{suffix}")))]
        is_img2dataset = [files[0].suffix for files in groups] == [".txt", ".json"]
        if len(groups) == 1 or is_img2dataset:
            return groups[0]
        raise UserError(f"{name}: a folder of captions holds files of one of {KINDS}; this has none, or several")
    if not path.exists():
        raise UserError(f"{name}: no such list of captions or texts; fetch it, or correct `file`")
    if path.suffix not in READERS or path.suffix in NAMED_BY_KEY:
        folders = " and ".join(NAMED_BY_KEY)
        raise UserError(f"{name}: captions are read from a file or a folder of {KINDS}, {folders} from a folder alone")
    return [Path(check_regular(path))]


def _clean_texts(texts: Sequence[str], cfg: Captions) -> tuple[str, ...]:
    """Return the different texts without those of `cfg.skip`; with `cfg.sentences` as one text."""
    cleaned = tuple(dict.fromkeys(text for text in map(one_line, texts) if text and text not in cfg.skip))
    if not cfg.sentences or not cleaned:
        return cleaned
    return (" ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in cleaned),)


def choose_columns(names: Iterable[str], cfg: Captions, path: Path) -> tuple[str, list[str]]:
    """Return the columns of key and captions. Raises UserError for one that the list does not have."""
    names = list(names)
    key = cfg.key_column or next((name for name in cfg.JOINS[cfg.on] if name in names), "")
    if not key:
        option = f"{cfg.SECTION}.key_column"
        raise UserError(f"{path}: which column holds the {cfg.on}? set {option} to one of {_quote(names)}")
    _check_column_given(names, cfg, path)
    for option, name in (("key_column", key), *(("column", name) for name in cfg.column)):
        if name not in names and (cfg.header or not FROM.fullmatch(name)):
            raise unknown("column", name, names, f"{path}: {cfg.SECTION}.{option}")
    return key, cfg.column


def _check_column_given(names: Sequence[str], cfg: Captions, path: Path) -> None:
    if not cfg.column:
        section = cfg.SECTION
        raise UserError(f"{path}: which column holds the {section}? set {section}.column to one of {_quote(names)}")


def _quote(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20]))


# --- csv, tsv -------------------------------------------------------------------------------------------------


def _read_separated(path: Path, cfg: Captions, counts: Counter) -> Iterator[ListRow]:
    """Read csv or tsv with Python's reader: a stray quote costs it a few rows, and rows may differ in length."""
    with open(check_regular(path), encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(iterate_lines(file), delimiter="\t" if path.suffix == ".tsv" else ",")
        rows = _skip_damaged(reader, counts)
        first = next(rows, None)
        if first is None:
            raise UserError(f"{path}: holds no row; fetch it again")
        names = first if cfg.header else [str(number) for number in range(1, len(first) + 1)]
        key, columns = choose_columns(names, cfg, path)
        position = names.index(key)
        slices = [
            slice(names.index(name), names.index(name) + 1) if name in names else slice(int(name[:-1]) - 1, None)
            for name in columns  # without a header a name may be as `2-`: all from the second on
        ]
        for row in rows if cfg.header else itertools.chain([first], rows):
            counts["captions_rows"] += 1
            if position >= len(row) or (cfg.header and len(row) != len(names)):
                counts["captions_damaged"] += 1
            elif any(map(files.has_lone, row)):
                counts["captions_not_utf8"] += 1
            else:
                yield row[position], [text for columns_of_name in slices for text in row[columns_of_name]]


def iterate_lines(file: IO[Any]) -> Iterator[Any]:
    """Give the lines of a file; one of more than `LONGEST_LINE` characters comes as several."""
    while line := file.readline(LONGEST_LINE):
        yield line


def _skip_damaged(reader: Iterator[list[str]], counts: Counter) -> Iterator[list[str]]:
    """Give the reader's rows; one that it cannot read is counted, and reading goes on behind it."""
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            counts.update(captions_rows=1, captions_damaged=1)
        else:
            if row:
                yield row


# --- jsonl ----------------------------------------------------------------------------------------------------


def _read_json_lines(path: Path, cfg: Captions, counts: Counter) -> Iterator[ListRow]:
    columns: tuple[str, list[str]] | None = None
    with open(check_regular(path), "rb") as file:
        for line in filter(bytes.strip, iterate_lines(file)):
            counts["captions_rows"] += 1
            try:
                record = _parse_json(line.decode("utf-8-sig"), path)
            except UnicodeDecodeError:
                counts["captions_not_utf8"] += 1
                continue
            if not isinstance(record, dict):
                counts["captions_damaged"] += 1
                continue
            columns = columns or choose_columns(record, cfg, path)
            yield from _build_row(record.get(columns[0]), [record.get(name) for name in columns[1]], counts)


def _parse_json(text: str, path: Path) -> Any:
    try:
        return files.parse_json(text, str(path))
    except UserError:
        return None


def _build_row(key: Any, values: Sequence[Any], counts: Counter) -> Iterator[ListRow]:
    """Give one row of values that may be anything: a text, several, none, or no text at all."""
    texts = [text for value in values for text in _as_list(value) if text is not None]
    if isinstance(key, (str, int, type(None))) and all(isinstance(text, str) for text in texts):
        yield (
            files.replace_lone("" if key is None else str(key)),
            [files.replace_lone(text) for text in texts],
        )
    else:
        counts["captions_damaged"] += 1


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# --- parquet --------------------------------------------------------------------------------------------------


def _read_parquet(path: Path, cfg: Captions, counts: Counter) -> Iterator[ListRow]:
    try:
        with pq.ParquetFile(check_regular(path), pre_buffer=False) as file:  # a buffer would hold whole columns
            key, columns = choose_columns(file.schema_arrow.names, cfg, path)
            names = (key, *columns)
            for name in names:
                _check_type(file.schema_arrow.field(name), path)
            for batch in file.iter_batches(PARQUET_ROWS, columns=list(dict.fromkeys(names))):
                counts["captions_rows"] += len(batch)
                for row in zip(*(_to_bytes(batch.column(name)) for name in names), strict=True):
                    try:
                        values = [_decode(value) for value in row]
                    except UnicodeDecodeError:
                        counts["captions_not_utf8"] += 1
                        continue
                    yield from _build_row(values[0], values[1:], counts)
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: cannot be read as parquet ({one_line(str(error))[:200]}); fetch it again") from error


def _check_type(field: pa.Field, path: Path) -> None:
    kind = field.type.value_type if _is_list(field.type) or pa.types.is_dictionary(field.type) else field.type
    tests: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary,
        pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_integer, pa.types.is_null,
    )  # fmt: skip
    if not any(test(kind) for test in tests):
        raise UserError(f"{path}: column {field.name!r} holds {field.type}, no text; name another one")


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _to_bytes(column: pa.Array) -> list[Any]:
    """Return a column's texts as bytes: Arrow does not check that a file's texts are UTF-8."""
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        column = column.cast(pa.string())
    elif pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return list(
        column.cast(pa.large_list(pa.large_binary()) if _is_list(column.type) else pa.large_binary()).to_pylist()
    )


def _decode(value: bytes | list[bytes | None] | None) -> Any:
    if isinstance(value, list):
        return [text.decode() for text in value if text is not None]
    return None if value is None else value.decode()


# --- a folder of files that are named after their keys ---------------------------------------------------------


def _read_text(path: Path, counts: Counter) -> str | None:
    """Return the text of a file, which is a row of the list; None, counted, where there is none."""
    counts["captions_rows"] += 1
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        counts["captions_not_utf8"] += 1
    except UserError:  # a folder, a pipe or a link to nowhere
        counts["captions_damaged"] += 1
    return None


def _read_text_file(path: Path, cfg: Captions, counts: Counter) -> Iterator[ListRow]:
    """Give the first line of a file."""
    text = _read_text(path, counts)
    if text is not None:
        yield path.stem, [line for line in text.splitlines() if line.strip()][:1]


def _read_json_file(path: Path, cfg: Captions, counts: Counter) -> Iterator[ListRow]:
    """Give the texts of a file: a list of them, or an object with some by name."""
    text = _read_text(path, counts)
    if text is None:
        return
    content = _parse_json(text, path)
    if isinstance(content, dict):
        _check_column_given(list(content), cfg, path)
        content = [text for name in cfg.column for text in _as_list(content.get(name))]
    if isinstance(content, list):
        yield from _build_row(path.stem, content, counts)
    else:
        counts["captions_damaged"] += 1


READERS: dict[str, Callable[[Path, Captions, Counter], Iterator[ListRow]]] = {
    ".csv": _read_separated,
    ".tsv": _read_separated,
    ".jsonl": _read_json_lines,
    ".parquet": _read_parquet,
    ".txt": _read_text_file,
    ".json": _read_json_file,
}
NAMED_BY_KEY = (".txt", ".json")  # one file per key
KINDS = ", ".join(READERS)


# --- lists of texts that were written as one text --------------------------------------------------------------


def parse_texts(text: str) -> list[str]:
    """Return the texts of a list, written as JSON or as Python shows it.

    Raises ValueError for what is no list of texts, or too long to parse as Python.
    """
    try:
        texts = files.parse_json(text, "")
    except UserError:
        texts = parse_literal(text)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("no list of texts")
    return [files.replace_lone(text) for text in texts]


def parse_literal(text: str) -> Any:
    """Return the value of a Python literal of bounded length; None for what is none."""
    if len(text) > LONGEST_LITERAL:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a backslash that Python would double
        try:
            return ast.literal_eval(text.strip())
        except LITERAL_ERRORS:
            return None

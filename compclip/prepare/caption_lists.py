"""Read the rows of a list of captions: csv, tsv, jsonl, parquet, a folder of one of them, or of .txt or .json files.

A list is read row by row, so that its size does not matter. A row that cannot be used is counted and left out; a fault
of the whole list is an error.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from compclip.base import files
from compclip.base.errors import UserError, one_line
from compclip.base.files import check_regular, read_bytes
from compclip.config.released_lists import BY_CAPTION, Captions
from compclip.data import tables
from compclip.data.tables import TableForm
from compclip.text import sentences
from compclip.text.caption_cleaning import clean_caption

ListRow = tuple[str, Sequence[str]]  # the key that a row is joined by, and its texts, as the list has them
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


# --- tables -----------------------------------------------------------------------------------------------------


def _read_table(path: Path, cfg: Captions, counts: Counter) -> Iterator[ListRow]:
    form = TableForm(header=cfg.header)
    names = tables.read_columns(path, form)
    usual = cfg.JOINS[cfg.on]
    key = tables.choose_column(names, cfg.key_column, usual, f"{cfg.SECTION}.key_column", path, form)
    option = f"{cfg.SECTION}.column"
    columns = [tables.choose_column(names, name, (), option, path, form) for name in cfg.column or [""]]
    faults = Counter[str]()
    for _, values in tables.read_rows(path, list(dict.fromkeys([key, *columns])), faults, form):
        counts["captions_rows"] += 1
        yield from _build_row(values[key], [values[name] for name in columns], counts)
    for name, number in faults.items():
        reason = name.partition("_rows")[0]
        if reason != "empty":
            counts.update({"captions_rows": number, f"captions_{reason}": number})


def _build_row(key: Any, values: Sequence[Any], counts: Counter) -> Iterator[ListRow]:
    """Give one row of values that may be anything: a text, several, none, or no text at all."""
    texts = [text for value in values for text in _as_list(value) if text is not None]
    if isinstance(key, str) and all(isinstance(text, str) for text in texts):
        yield key, [files.replace_lone(text) for text in texts]
    else:
        counts["captions_damaged"] += 1


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


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
    try:
        content = files.parse_json(text, str(path))
    except UserError:
        content = None
    if isinstance(content, dict):
        if not cfg.column:
            tables.choose_column(list(content), "", (), f"{cfg.SECTION}.column", path)
        content = [text for name in cfg.column for text in _as_list(content.get(name))]
    if isinstance(content, list):
        yield from _build_row(path.stem, content, counts)
    else:
        counts["captions_damaged"] += 1


READERS: dict[str, Callable[[Path, Captions, Counter], Iterator[ListRow]]] = {
    ".csv": _read_table,
    ".tsv": _read_table,
    ".jsonl": _read_table,
    ".parquet": _read_table,
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

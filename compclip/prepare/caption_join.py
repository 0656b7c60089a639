"""Join captions that others released to the pictures of a data set, by URL, img2dataset's key, or file name.

A list is csv, tsv, jsonl, parquet, a folder of one of them, or of .txt or .json files. It is read row by row, so that
its size does not matter. A row that cannot be used is counted and left out; a fault of the whole list is an error.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import itertools
import json
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa

from compclip.base import files
from compclip.base.errors import UserError
from compclip.base.files import check_regular, read_bytes, read_mapping, remove_leftovers, temporary_path, write_json
from compclip.base.path_lists import iterate_files
from compclip.config.released_lists import BY_CAPTION, Captions
from compclip.data import tables
from compclip.data.sample import Sample, list_captions
from compclip.data.tables import TableForm
from compclip.prepare.image_folder import ImageFolder
from compclip.text import sentences
from compclip.text.caption_cleaning import clean_caption

FOLDER = Path(".work/joined")  # an index copies the captions, so that those of a sample are found without a search
FORMAT = 2  # of an index; one of another format is left where it is and not used
BLOCK = 8192  # rows of a record batch
MAX_ROWS = 100  # of one key that are read
SCHEMA = pa.schema([("key", pa.large_binary()), ("texts", pa.large_list(pa.large_binary()))])
TEXT_SCHEMA = pa.schema([("key", pa.large_string()), ("texts", pa.large_list(pa.large_string()))])
IndexRows = Iterable[tuple[str, Sequence[str]]]


def open_list(cfg: Captions, folder: Path = FOLDER) -> CaptionJoin:
    """Return the list, indexed when it is new or has changed.

    Raises UserError for a list that is missing, has no such column, or no usable row.
    """
    list_files(cfg.file)
    index = open_index(index_folder([cfg.file], asdict(cfg), folder), lambda counts: read_rows(cfg, counts))
    index.require_rows(cfg.file, "a caption")
    return CaptionJoin(cfg.on, index)


class CaptionJoin:
    """An open list of captions. `counts`: its rows, and the unusable ones by reason."""

    def __init__(self, on: str, index: TextIndex) -> None:
        self._on = on
        self._index = index
        self.counts = index.counts

    def find(self, keys: Iterable[str]) -> list[tuple[str, ...]]:
        """Return the texts of each key."""
        return self._index.find([join_key(key, self._on) for key in keys])

    def replace_captions(self, samples: Iterable[Sample]) -> tuple[list[Sample], Counter]:
        """Return samples with the list's captions instead of theirs, and counts.

        Samples that the list does not have are left out. Counted: `samples_matched`, `samples_unmatched`. Raises
        UserError for a picture in a tar that is joined by its file name: it has none.
        """
        samples = list(samples)
        texts_of_sample = self.find(_join_key(sample, self._on) for sample in samples)
        joined = [replace(s, captions=texts) for s, texts in zip(samples, texts_of_sample, strict=True) if texts]
        return joined, Counter(samples_matched=len(joined), samples_unmatched=len(samples) - len(joined))

    def find_texts(self, samples: Sequence[Sample]) -> list[tuple[str, ...]]:
        """Return the list's texts for every caption of the samples. Raises UserError as `replace_captions`."""
        if self._on == BY_CAPTION:
            return self._index.find(list_captions(samples))
        return self.find(_join_key(sample, self._on) for sample in samples for _ in sample.captions)


def sample_keys(sample: Sample, on: str) -> list[str]:
    """Return the keys by which a list has entries for a sample: its captions, or its address, key or file name."""
    return list(sample.captions) if on == BY_CAPTION else [_join_key(sample, on)]


def _join_key(sample: Sample, on: str) -> str:
    if on == "url":
        return sample.url
    if on == "key":
        return PurePosixPath(sample.id).name
    if sample.length:
        raise UserError(f"on=image: {sample.image}: pictures in a tar have keys; join by key or url")
    return sample.image


# --- rows of a list ---------------------------------------------------------------------------------------------


ListRow = tuple[str, Sequence[str]]  # the key that a row is joined by, and its texts, as the list has them
LONGEST_LITERAL = 1 << 16  # characters: Python's parser takes some hundred times as many bytes
LITERAL_ERRORS = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)  # documented for `literal_eval`


def read_rows(cfg: Captions, counts: Counter) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give key and captions of every usable row, in the order of the list.

    Counted: `captions_rows`, and of those that are left out `captions_damaged` (no row of this list's form),
    `captions_not_utf8`, `captions_without_key`, `captions_empty`; and `captions_outside`, files of a folder that are
    links out of it. Raises UserError for a list that is missing, of an
    unknown format, or has no such column.
    """
    folder = ImageFolder(cfg.file)
    for path in list_files(cfg.file):
        if not folder.contains(str(path)):
            counts["captions_outside"] += 1
            continue
        for key, texts in READERS[path.suffix](path, cfg, counts):
            if cfg.on == BY_CAPTION:  # as `recaption` leaves captions
                key = sentences.clean(clean_caption(key))
            key = join_key(key, cfg.on)
            try:
                if cfg.lists:  # an empty text is an empty list
                    texts = parse_lists(filter(str.strip, texts))
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
        groups = {suffix: sorted(path.glob(f"*{suffix}")) for suffix in READERS}
        suffixes = list(filter(groups.get, READERS))
        if len(suffixes) == 1 or suffixes == [".txt", ".json"]:  # the second are img2dataset's
            return groups[suffixes[0]]
        raise UserError(f"{name}: a folder of captions holds files of one of {KINDS}; this has none, or several")
    if not path.exists() or path.suffix not in READERS or path.suffix in NAMED_BY_KEY:
        folders = " and ".join(NAMED_BY_KEY)
        raise UserError(f"{name}: no such list: give a file or a folder of {KINDS}, {folders} in a folder alone")
    return [Path(check_regular(path))]


def _clean_texts(texts: Sequence[str], cfg: Captions) -> tuple[str, ...]:
    """Return the different texts without those of `cfg.skip`; with `cfg.sentences` as one text."""
    cleaned = dict.fromkeys(" ".join(text.split()) for text in texts)
    for unwanted in ("", *cfg.skip):
        cleaned.pop(unwanted, None)
    if not cfg.sentences or not cleaned:
        return tuple(cleaned)
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
    texts: list[Any] = []
    for value in values:
        texts += value if isinstance(value, list) else [value]
    texts = [text for text in texts if text is not None]
    if {str}.issuperset(map(type, (key, *texts))):
        yield key, [files.replace_lone(text) for text in texts]
    else:
        counts["captions_damaged"] += 1


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
        yield path.stem, list(filter(str.strip, text.splitlines()))[:1]


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
        content = [content.get(name) for name in cfg.column]
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
    if not isinstance(texts, list) or not {str}.issuperset(map(type, texts)):
        raise ValueError("no list of texts")
    return [files.replace_lone(text) for text in texts]


def parse_lists(lists: Iterable[str]) -> list[str]:
    """Return the texts of several lists, as `parse_texts`."""
    return list(itertools.chain.from_iterable(map(parse_texts, lists)))


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


# --- texts by key on disk --------------------------------------------------------------------------------------


class TextIndex:
    """Texts by key on disk: built once, read by any number of processes, without an object per row.

    A folder has `rows.arrow`, `hashes.npy`, `order.npy` and `counts.json`: the rows in their order, in Arrow's format
    that processes map; the sorted hashes of their keys; and the row of each hash. `counts`: what was counted while it
    was built.
    """

    def __init__(self, folder: Path) -> None:
        """Map the index of a folder."""
        self._hashes = np.load(folder / "hashes.npy", mmap_mode="r", allow_pickle=False)
        self._order = np.load(folder / "order.npy", mmap_mode="r", allow_pickle=False)
        self._file = pa.ipc.open_file(pa.memory_map(str(folder / "rows.arrow")))
        self.counts = +Counter(read_mapping(folder / "counts.json"))  # without those of 0

    def require_rows(self, file: str, value: str) -> None:
        """Raise UserError, naming the list and what is usually wrong with it, where it has no usable row."""
        if not len(self._hashes):
            reasons = ", ".join(f"{number} {name}" for name, number in sorted(self.counts.items())) or "it is empty"
            raise UserError(f"{file}: no row holds a key and {value} ({reasons}); correct its columns")

    def find(self, keys: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the different texts of each key, of at most `MAX_ROWS` rows; none where it has no row."""
        hashes = _hash_keys(keys)
        low = np.searchsorted(self._hashes, hashes, "left")
        high = np.minimum(np.searchsorted(self._hashes, hashes, "right"), low + MAX_ROWS)
        ranges = [self._order[first:end] for first, end in zip(low, high, strict=True)]
        content: dict[int, dict[str, Any]] = {}
        rows_read = np.unique(np.concatenate([*ranges, np.zeros(0, np.int64)]))
        for block in np.unique(rows_read // BLOCK):
            numbers = rows_read[rows_read // BLOCK == block]
            records = self._file.get_batch(int(block)).take(pa.array(numbers % BLOCK)).cast(TEXT_SCHEMA)
            content |= zip(numbers.tolist(), records.to_pylist(), strict=True)
        texts_of_key = []
        for key, rows in zip(keys, ranges, strict=True):
            texts: dict[str, None] = {}
            for row in rows.tolist():
                record = content[row]
                if record["key"] == key:  # other keys may have the same hash
                    texts |= dict.fromkeys(record["texts"])
            texts_of_key.append(tuple(texts))
        return texts_of_key


def index_folder(names: Iterable[str], settings: Any, folder: Path = FOLDER) -> Path:
    """Return where the index of some files is; it changes with a file's name, size or time, and with `settings`."""
    files = itertools.chain.from_iterable(map(iterate_files, names))
    listing = [[os.path.abspath(file.path), file.size, file.time] for file in files]
    return folder / hashlib.sha256(json.dumps([FORMAT, listing, settings]).encode()).hexdigest()[:16]


def open_index(folder: Path, rows: Callable[[Counter], IndexRows]) -> TextIndex:
    """Return the index in a folder; a missing one is built of `rows`, whole or not at all.

    `rows` is given a Counter to count in. One process builds; others wait where file locks reach.
    """
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder.parent)
        with open(folder.with_name(f"{folder.name}.lock"), "a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _build(folder, rows)
    return TextIndex(folder)


def _build(folder: Path, rows: Callable[[Counter], IndexRows]) -> None:
    temporary = temporary_path(folder, "new")
    counts = Counter[str]()
    try:
        temporary.mkdir()
        hashes = _write_rows(temporary / "rows.arrow", rows(counts))
        order = np.argsort(hashes, kind="stable")
        np.save(temporary / "order.npy", order)
        hashes = hashes[order]
        np.save(temporary / "hashes.npy", hashes)
        counts["captions_duplicate"] = int((hashes[1:] == hashes[:-1]).sum())
        write_json(temporary / "counts.json", counts)
        os.rename(temporary, folder)
    except OSError as error:
        if not folder.is_dir():  # no other process was quicker
            raise UserError(f"{folder}: cannot write: {error.strerror or error}; free space") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_rows(path: Path, rows: IndexRows) -> np.ndarray:
    """Write the rows in blocks and return the hash of each row's key."""
    hashes = [np.zeros(0, np.uint64)]
    remaining = iter(rows)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
        while block := list(itertools.islice(remaining, BLOCK)):
            keys, texts = zip(*block, strict=True)
            hashes.append(_hash_keys(keys))
            batch = pa.RecordBatch.from_pydict({"key": keys, "texts": texts}, TEXT_SCHEMA)
            writer.write_batch(batch.cast(SCHEMA))
    return np.concatenate(hashes)


def _hash_keys(keys: Iterable[str]) -> np.ndarray:
    digests = (hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest() for key in keys)
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)

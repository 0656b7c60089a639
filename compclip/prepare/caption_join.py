"""Join captions that others released to the pictures of a data set, by URL, img2dataset's key, or file name."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa

from compclip.base.errors import UserError
from compclip.base.files import read_mapping, remove_leftovers, temporary_path, write_json
from compclip.config.released_lists import BY_CAPTION, Captions
from compclip.data.sample import Sample
from compclip.prepare import caption_lists, file_listing

FOLDER = Path(".work/joined")  # an index copies the captions, so that those of a sample are found without a search
FORMAT = 2  # of an index; one of another format is left where it is and not used
BLOCK = 8192  # rows of a record batch
MAX_ROWS = 100  # of one key that are read
SCHEMA = pa.schema([("key", pa.large_binary()), ("texts", pa.large_list(pa.large_binary()))])
IndexRows = Iterable[tuple[str, Sequence[str]]]


def open_list(cfg: Captions, folder: Path = FOLDER) -> CaptionJoin:
    """Return the list, indexed when it is new or has changed.

    Raises UserError for a list that is missing, has no such column, or no usable row.
    """
    caption_lists.list_files(cfg.file)
    index = open_index(
        index_folder([cfg.file], asdict(cfg), folder), lambda counts: caption_lists.read_rows(cfg, counts)
    )
    if not index.rows:
        reasons = ", ".join(f"{n} {name}" for name, n in sorted(index.counts.items()) if n) or "it is empty"
        raise UserError(f"{cfg.file}: no row holds a key and a caption ({reasons}); correct its columns")
    return CaptionJoin(cfg.on, index)


class CaptionJoin:
    """An open list of captions. `counts`: its rows, and the unusable ones by reason."""

    def __init__(self, on: str, index: TextIndex) -> None:
        self._on = on
        self._index = index
        self.counts = index.counts

    def find(self, keys: Iterable[str]) -> list[tuple[str, ...]]:
        """Return the texts of each key."""
        return self._index.find([caption_lists.join_key(key, self._on) for key in keys])

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
            return self._index.find([caption for sample in samples for caption in sample.captions])
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


# --- texts by key on disk --------------------------------------------------------------------------------------


class TextIndex:
    """Texts by key on disk: built once, read by any number of processes, without an object per row.

    A folder has `rows.arrow`, `hashes.npy`, `order.npy` and `counts.json`: the rows in their order, in Arrow's format
    that processes map; the sorted hashes of their keys; and the row of each hash. `counts`: what was counted while it
    was built.
    """

    def __init__(self, folder: Path) -> None:
        """Map the index of a folder. Raises UserError where it is damaged."""
        try:
            self._hashes = np.load(folder / "hashes.npy", mmap_mode="r", allow_pickle=False)
            self._order = np.load(folder / "order.npy", mmap_mode="r", allow_pickle=False)
            self._file = pa.ipc.open_file(pa.memory_map(str(folder / "rows.arrow")))
            self.counts = +Counter(read_mapping(folder / "counts.json"))  # without those of 0
        except (OSError, ValueError, pa.ArrowException) as error:
            raise UserError(f"{folder}: a damaged index of captions; remove it and run this again") from error
        self.rows = len(self._hashes)

    def find(self, keys: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the different texts of each key, of at most `MAX_ROWS` rows; none where it has no row."""
        hashes = np.array([_hash(key) for key in keys], np.uint64)
        low, high = (np.searchsorted(self._hashes, hashes, side) for side in ("left", "right"))
        ranges = [self._order[a : min(b, a + MAX_ROWS)] for a, b in zip(low, high, strict=True)]
        content = self._read(np.unique(np.concatenate([*ranges, np.zeros(0, np.int64)])))
        texts_of_key = []
        for key, rows in zip(keys, ranges, strict=True):
            records = [content[int(row)] for row in rows]
            own_texts = [texts for name, texts in records if name == key]  # other keys may have the same hash
            texts_of_key.append(tuple(dict.fromkeys(itertools.chain.from_iterable(own_texts))))
        return texts_of_key

    def _read(self, rows: np.ndarray) -> dict[int, tuple[str, list[str]]]:
        """Return key and texts of rows, given in ascending order."""
        content: dict[int, tuple[str, list[str]]] = {}
        for block in np.unique(rows // BLOCK):
            numbers = rows[rows // BLOCK == block]
            records = self._file.get_batch(int(block)).take(pa.array(numbers % BLOCK)).to_pylist()
            for row, record in zip(numbers, records, strict=True):
                content[int(row)] = record["key"].decode(), [text.decode() for text in record["texts"]]
        return content


def index_folder(files: Iterable[str], settings: Any, folder: Path = FOLDER) -> Path:
    """Return where the index of some files is; it changes with a file's name, size or time, and with `settings`."""
    listing = [
        [os.path.abspath(file.path), file.size, file.time]
        for name in files
        for file in file_listing.iterate_files(name)
    ]
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
            hashes.append(np.array([_hash(key) for key, _ in block], np.uint64))
            keys = pa.array([key.encode() for key, _ in block], pa.large_binary())
            texts = pa.array([[text.encode() for text in texts] for _, texts in block], SCHEMA.field("texts").type)
            writer.write_batch(pa.record_batch([keys, texts], SCHEMA))
    return np.concatenate(hashes)


def _hash(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest())

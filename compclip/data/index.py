"""Texts by key, on disk: built once, read by any number of processes, without an object for each row.

A folder `rows.arrow`, `hashes.npy`, `order.npy`, `counts.json`: the rows as they came, in Arrow's format that a process
maps and never copies; the hashes of their keys, sorted; and which row each of these is.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import pyarrow as pa

from compclip.base.errors import UserError
from compclip.base.files import beside, read_mapping, regular, sweep, write_json
from compclip.data import look

FORMAT = 1  # of the folder; an older one is left where it is and not found
BLOCK = 8192  # rows of a record batch
MOST = 100  # rows of one key that are looked at
SCHEMA = pa.schema([("key", pa.large_binary()), ("texts", pa.large_list(pa.large_binary()))])
Rows = Iterable[tuple[str, Sequence[str]]]
FAULTS = (OSError, ValueError, ArithmeticError, LookupError, AttributeError, TypeError, pa.ArrowException)
SPOILT = (*FAULTS, SyntaxError, TokenError, EOFError, UserError)  # NumPy reads a header as Python's literals


class Index:
    """Texts by key. `counts` is what was counted while it was built, `rows` its number of rows."""

    def __init__(self, folder: Path) -> None:
        """Raises UserError where the folder holds no index."""
        self._folder = folder
        self._checked: dict[int, pa.RecordBatch] = {}
        try:
            self._hashes = np.load(regular(folder / "hashes.npy"), mmap_mode="r", allow_pickle=False)
            self._order = np.load(regular(folder / "order.npy"), mmap_mode="r", allow_pickle=False)
            self._file = pa.ipc.open_file(pa.memory_map(regular(folder / "rows.arrow")))
            self.counts = Counter({name: int(n) for name, n in read_mapping(folder / "counts.json").items()})
        except SPOILT as error:
            raise self._damaged() from error
        if self._hashes.shape != self._order.shape or self._file.schema != SCHEMA:
            raise self._damaged()

    @property
    def rows(self) -> int:
        """How many rows there are, those of one key each by itself."""
        return len(self._hashes)

    def of(self, keys: Sequence[str]) -> Found:
        """The texts of each key: all that its rows have, each once; of at most `MOST` rows."""
        wanted = np.array([_hash(key) for key in keys], np.uint64)
        low, high = (np.searchsorted(self._hashes, wanted, side) for side in ("left", "right"))
        ranges = [self._order[a : min(b, a + MOST)] for a, b in zip(low, high, strict=True)]
        read = self._read(np.unique(np.concatenate([*ranges, np.zeros(0, np.int64)])))
        own = [[r for r in map(int, rows) if read[r][0] == key] for key, rows in zip(keys, ranges, strict=True)]
        texts = [tuple(dict.fromkeys(text for row in rows for text in read[row][1])) for rows in own]
        return Found(texts, np.unique(np.array([row for rows in own for row in rows], np.int64)))

    def _read(self, rows: np.ndarray) -> dict[int, tuple[str, list[str]]]:
        """Key and texts of rows, given in ascending order."""
        found: dict[int, tuple[str, list[str]]] = {}
        for number in np.unique(rows // BLOCK):
            own = rows[rows // BLOCK == number]
            try:
                part = self._batch(int(number)).take(pa.array(own % BLOCK)).to_pylist()
                found |= {int(r): (p["key"].decode(), _decoded(p["texts"])) for r, p in zip(own, part, strict=True)}
            except FAULTS as error:
                raise self._damaged() from error
        return found

    def _batch(self, number: int) -> pa.RecordBatch:
        """Arrow believes the file's offsets: they are looked at as a batch is first touched."""
        if number not in self._checked:
            batch = self._file.get_batch(number)
            batch.validate(full=True)
            self._checked[number] = batch
        return self._checked[number]

    def _damaged(self) -> UserError:
        return UserError(f"{self._folder}: no index of captions, or a damaged one; remove it and run this again")


@dataclass(frozen=True)
class Found:
    """The texts of each key, none for a key without; and the numbers of the rows that they came from, ascending."""

    texts: list[tuple[str, ...]]
    rows: np.ndarray


def place(folder: Path, files: Iterable[str], asked: Any) -> Path:
    """Where the index of what is `asked` of some files is: another place once a file's name, size or time is new."""
    found = [[os.path.abspath(file.path), file.size, file.time] for name in files for file in look.files(name)]
    return folder / hashlib.sha256(json.dumps([FORMAT, found, asked]).encode()).hexdigest()[:16]


def opened(folder: Path, rows: Callable[[Counter], Rows]) -> Index:
    """The index in a folder; where there is none it is built of `rows`, whole or not at all.

    `rows` is given a Counter to count in. Of two processes one builds, and the other one waits where locks reach.
    """
    if not folder.is_dir():
        with _alone(folder):
            if not folder.is_dir():
                _build(folder, rows)
    return Index(folder)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    sweep(folder.parent)
    with open(folder.with_name(f"{folder.name}.lock"), "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(folder: Path, rows: Callable[[Counter], Rows]) -> None:
    made, counts = beside(folder, "new"), Counter[str]()
    try:
        made.mkdir()
        hashes = _write_rows(made / "rows.arrow", rows(counts))
        order = np.argsort(hashes, kind="stable")
        np.save(made / "order.npy", order)
        hashes = hashes[order]
        np.save(made / "hashes.npy", hashes)
        counts["captions_duplicate"] = int((hashes[1:] == hashes[:-1]).sum())
        write_json(made / "counts.json", counts)
        os.rename(made, folder)
    except OSError as error:
        if not folder.is_dir():  # nobody else was quicker
            raise UserError(f"{folder}: cannot write: {error.strerror or error}; free space") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _write_rows(path: Path, rows: Rows) -> np.ndarray:
    """Write the rows in blocks; gives the hash of each one's key."""
    hashes, ahead = [np.zeros(0, np.uint64)], iter(rows)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
        while block := list(islice(ahead, BLOCK)):
            hashes.append(np.array([_hash(key) for key, _ in block], np.uint64))
            writer.write_batch(pa.record_batch([_bytes(k for k, _ in block), _lists(t for _, t in block)], SCHEMA))
    return np.concatenate(hashes)


def _decoded(texts: Iterable[bytes]) -> list[str]:
    return [text.decode() for text in texts]


def _bytes(texts: Iterable[str]) -> pa.Array:
    return pa.array([text.encode() for text in texts], pa.large_binary())


def _lists(lists: Iterable[Sequence[str]]) -> Any:
    return pa.array([[text.encode() for text in texts] for texts in lists], SCHEMA.field("texts").type)


def _hash(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest())

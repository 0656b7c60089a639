"""Which captions share a noun: CLIC's partners, found once for a data set and mapped by whoever trains.

    data/<name>/nouns.arrow    a row for each noun, sorted: the captions that have it in their first sentence

A caption has a number, in the order of the data set's samples and their captions.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from compclip.base.errors import UserError
from compclip.data import shards
from compclip.text.rows import Lists, Strings, numbers

FILE = "nouns.arrow"
STAGE = "annotate"
SHAPES = ("tall", "wide")  # by the number of `wide`
LISTS = pa.large_list(pa.uint32())
SCHEMA = pa.schema([("noun", pa.string()), *((shape, LISTS) for shape in SHAPES)])


def write(path: Path, files: Sequence[Path]) -> None:
    """Write what the annotated shards of a data set have in common.

    The shards are read twice. Memory grows with the number of different nouns: the lists of captions are a file's
    pages. Raises UserError where there is no room for them.
    """
    known, sizes = _sizes(files)
    codes, start = {noun: code for code, noun in enumerate(known)}, 0
    with _filled(path, sizes[False]) as tall, _filled(path, sizes[True]) as wide:
        for file in files:
            found = _read(file, codes)
            for own, chosen in ((tall, ~found.wide), (wide, found.wide)):
                own.add(found.codes[chosen], found.captions[chosen] + np.uint32(start))
            start += found.count
        columns = [pa.array(known, pa.string()), tall.array(), wide.array()]
        shards.write_batch(path, pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def _sizes(files: Sequence[Path]) -> tuple[list[str], list[np.ndarray]]:
    """The nouns of all shards, sorted; of each how many captions have it, of tall pictures and of wide ones."""
    counts: tuple[Counter, ...] = (Counter(), Counter())
    for file in files:
        own: dict[str, int] = {}
        found = _read(file, own)
        for wide, counted in enumerate(counts):
            of_each = np.bincount(found.codes[found.wide == wide], minlength=len(own)).tolist()
            counted.update(dict(zip(own, of_each, strict=True)))
    known = sorted(counts[0], key=str.encode)  # as UTF-8, which is how they are looked for
    return known, [np.array([counted[noun] for noun in known], np.int64) for counted in counts]


class _Found(NamedTuple):
    """How many captions a shard has; of each noun in one of them its code, the caption, and whether that is wide."""

    count: int
    codes: np.ndarray
    captions: np.ndarray
    wide: np.ndarray


def _read(file: Path, vocabulary: dict[str, int]) -> _Found:
    """The nouns of a shard; those that are new get the next codes."""
    batch = shards.read_batch(file, STAGE, mapped=True)
    said = batch["captions"]
    nouns = said.values.field("nouns")
    wide = np.repeat(numbers(batch["width"]) >= numbers(batch["height"]), numbers(said.value_lengths()))
    found = nouns.flatten()
    own = [vocabulary.setdefault(noun, len(vocabulary)) for noun in found.dictionary.to_pylist()]
    captions = np.repeat(np.arange(len(nouns), dtype=np.uint32), numbers(nouns.value_lengths()))
    return _Found(len(nouns), np.asarray(own, np.int32)[numbers(found.indices)], captions, wide[captions])


class _Filled:
    """For each noun the captions that have it, rising: those of one are `values` from its edge to the next."""

    def __init__(self, edges: np.ndarray, values: np.ndarray) -> None:
        self.edges, self.values, self.free = edges, values, edges[:-1].copy()

    def add(self, nouns: np.ndarray, captions: np.ndarray) -> None:
        """Some more nouns, each with its caption; captions rise from call to call."""
        order = np.argsort(nouns, kind="stable")
        found, counts = np.unique(nouns, return_counts=True)
        within = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.values[np.repeat(self.free[found], counts) + within] = captions[order]
        self.free[found] += counts

    def array(self) -> pa.Array:
        """All lists."""
        return pa.LargeListArray.from_arrays(pa.array(self.edges, pa.int64()), pa.array(self.values, pa.uint32()))


@contextlib.contextmanager
def _filled(path: Path, sizes: np.ndarray) -> Iterator[_Filled]:
    """Lists of these sizes, still empty, in a file beside `path` that has no name.

    Its room is reserved first: a full disk kills whoever writes into a mapped file.
    """
    edges = np.concatenate([[0], np.cumsum(sizes)])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent) as file:
            room = max(int(edges[-1]), 1)
            os.posix_fallocate(file.fileno(), 0, room * np.dtype(np.uint32).itemsize)
            yield _Filled(edges, np.memmap(file, np.uint32, shape=(room,))[: edges[-1]])
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"{path}: cannot write: {why}; free space or choose another folder") from error


class Nouns:
    """The mapped file. Raises UserError where it is missing, another one or damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        batch = shards.read_batch(path, STAGE, mapped=True)
        if batch.schema != SCHEMA:
            raise UserError(f"{path}: not a list of nouns; run `dvc repro {STAGE}` again")
        with self._sound():
            batch.validate()
            self._known = Strings(batch["noun"])
            self._count = len(batch)
            self._lists = [Lists(batch[shape]) for shape in SHAPES]

    def captions(self, noun: str, wide: bool) -> np.ndarray:
        """The captions that have a noun, of wide pictures or of tall ones; rising."""
        wanted = noun.encode()
        with self._sound():
            row = bisect.bisect_left(range(self._count), wanted, key=self._known.__getitem__)
            if row == self._count or self._known[row] != wanted:
                return np.empty(0, np.uint32)
            return self._lists[wide][row][0]

    @contextlib.contextmanager
    def _sound(self) -> Iterator[None]:
        try:
            yield
        except (LookupError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
            raise UserError(f"{self.path}: damaged ({type(error).__name__}); run `dvc repro {STAGE}` again") from error

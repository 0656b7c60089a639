"""Which captions share a noun: CLIC's partners, found once for a data set and mapped by whoever trains.

    data/<name>/nouns.arrow    a row for each noun, sorted: the captions that have it in their first sentence

A caption has a number, in the order of the data set's samples and their captions.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from compclip.base.errors import UserError
from compclip.data import shards
from compclip.text.rows import Lists, Strings

FILE = "nouns.arrow"
STAGE = "annotate"
SHAPES = ("tall", "wide")  # by the number of `wide`
LISTS = pa.large_list(pa.uint32())
SCHEMA = pa.schema([("noun", pa.string()), *((shape, LISTS) for shape in SHAPES)])


def write(path: Path, files: Sequence[Path]) -> None:
    """Write what the annotated shards of a data set have in common.

    Memory grows with the captions by some ten bytes each, whatever their length.
    """
    vocabulary: dict[str, int] = {}
    coded = [_coded(file, vocabulary) for file in files]
    known = sorted(vocabulary, key=str.encode)  # as UTF-8, which is how they are looked for
    rank = np.empty(len(known), np.int64)
    rank[[vocabulary[noun] for noun in known]] = np.arange(len(known))
    starts = np.cumsum([0, *(captions for captions, *_ in coded)])
    columns: list[pa.Array] = [pa.array(known, pa.string())]
    for wide in (False, True):
        parts = [
            (rank[codes[w == wide]], n[w == wide] + start)
            for (_, codes, n, w), start in zip(coded, starts, strict=False)
        ]
        columns.append(_lists(len(known), parts))
    shards.write_batch(path, pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def _coded(file: Path, vocabulary: dict[str, int]) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Of a shard its number of captions; of each noun in a caption its code, the caption, and whether that is wide."""
    batch = shards.read_batch(file, STAGE, mapped=True)
    said = batch["captions"]
    nouns = said.values.field("nouns")
    wide = np.repeat(batch["width"].to_numpy() >= batch["height"].to_numpy(), said.value_lengths().to_numpy())
    found = nouns.flatten()
    own = [vocabulary.setdefault(noun, len(vocabulary)) for noun in found.dictionary.to_pylist()]
    captions = np.repeat(np.arange(len(nouns), dtype=np.uint32), nouns.value_lengths().to_numpy())
    return len(nouns), np.asarray(own, np.int32)[found.indices.to_numpy()], captions, wide[captions]


def _lists(count: int, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> pa.Array:
    """For each of `count` nouns the captions that have it, rising, from nouns and their captions in order."""
    sizes = sum((np.bincount(nouns, minlength=count) for nouns, _ in parts), np.zeros(count, np.int64))
    edges = np.concatenate([[0], np.cumsum(sizes)])
    values, free = np.empty(edges[-1], np.uint32), edges[:-1].copy()
    for nouns, captions in parts:
        order = np.argsort(nouns, kind="stable")
        sorted_nouns = nouns[order]
        within = np.arange(len(order)) - np.searchsorted(sorted_nouns, sorted_nouns)
        values[free[sorted_nouns] + within] = captions[order]
        free += np.bincount(nouns, minlength=count)
    return pa.LargeListArray.from_arrays(pa.array(edges, pa.int64()), pa.array(values, pa.uint32()))


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

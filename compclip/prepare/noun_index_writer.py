"""Write which captions of an annotated data set share a noun (`data/noun_index.py` reads it)."""

from __future__ import annotations

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
from compclip.data.noun_index import SCHEMA, STAGE
from compclip.data.shard_files import read_batch
from compclip.prepare.shard_writer import write_batch
from compclip.text.annotation_rows import to_numpy


def write_noun_index(path: Path, shards: Sequence[Path]) -> None:
    """Write the noun index of annotated shards, which are read twice.

    Memory grows with the number of different nouns; the lists of captions are filled in a mapped file. Raises UserError
    where the disk has no room for them.
    """
    counts: tuple[Counter, ...] = (Counter(), Counter())
    for shard in shards:
        vocabulary: dict[str, int] = {}
        mentions = _read_mentions(shard, vocabulary)
        for wide, counter in enumerate(counts):
            totals = np.bincount(mentions.codes[mentions.wide == wide], minlength=len(vocabulary)).tolist()
            counter.update(dict(zip(vocabulary, totals, strict=True)))
    nouns = sorted(counts[0], key=str.encode)  # as UTF-8, which the reader's search compares
    codes, start = {noun: code for code, noun in enumerate(nouns)}, 0
    sizes = [np.array([counter[noun] for noun in nouns], np.int64) for counter in counts]
    with _open_lists(path, sizes[False]) as tall, _open_lists(path, sizes[True]) as wide_lists:
        for shard in shards:
            mentions = _read_mentions(shard, codes)
            for lists, selection in ((tall, ~mentions.wide), (wide_lists, mentions.wide)):
                lists.add(mentions.codes[selection], mentions.captions[selection] + np.uint32(start))
            start += mentions.caption_count
        columns = [pa.array(nouns, pa.string()), tall.to_arrow(), wide_lists.to_arrow()]
        write_batch(path, pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


class _Mentions(NamedTuple):
    """The number of a shard's captions; for each noun of a caption its code, the caption, and whether that is wide."""

    caption_count: int
    codes: np.ndarray
    captions: np.ndarray
    wide: np.ndarray


def _read_mentions(shard: Path, vocabulary: dict[str, int]) -> _Mentions:
    """Read the nouns of a shard; nouns that `vocabulary` lacks are added with the next codes."""
    batch = read_batch(shard, STAGE, mapped=True)
    captions = batch["captions"]
    nouns = captions.values.field("nouns")
    wide = np.repeat(to_numpy(batch["width"]) >= to_numpy(batch["height"]), to_numpy(captions.value_lengths()))
    words = nouns.flatten()
    codes = [vocabulary.setdefault(noun, len(vocabulary)) for noun in words.dictionary.to_pylist()]
    caption_of_noun = np.repeat(np.arange(len(nouns), dtype=np.uint32), to_numpy(nouns.value_lengths()))
    code_of_noun = np.asarray(codes, np.int32)[to_numpy(words.indices)]
    return _Mentions(len(nouns), code_of_noun, caption_of_noun, wide[caption_of_noun])


class _CaptionLists:
    """The captions of each noun, ascending: those of noun n are `values[edges[n]:edges[n + 1]]`."""

    def __init__(self, edges: np.ndarray, values: np.ndarray) -> None:
        self.edges, self.values, self.next_free = edges, values, edges[:-1].copy()

    def add(self, codes: np.ndarray, captions: np.ndarray) -> None:
        """Add pairs of noun and caption; captions rise from call to call."""
        order = np.argsort(codes, kind="stable")
        nouns, counts = np.unique(codes, return_counts=True)
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.values[np.repeat(self.next_free[nouns], counts) + rank] = captions[order]
        self.next_free[nouns] += counts

    def to_arrow(self) -> pa.Array:
        """Return all lists."""
        return pa.LargeListArray.from_arrays(pa.array(self.edges, pa.int64()), pa.array(self.values, pa.uint32()))


@contextlib.contextmanager
def _open_lists(path: Path, sizes: np.ndarray) -> Iterator[_CaptionLists]:
    """Open empty lists of these sizes in an unnamed file beside `path`.

    The file's room is reserved first: on a full disk, writing into a mapped file kills the process.
    """
    edges = np.concatenate([[0], np.cumsum(sizes)])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent) as file:
            room = max(int(edges[-1]), 1)
            os.posix_fallocate(file.fileno(), 0, room * np.dtype(np.uint32).itemsize)
            yield _CaptionLists(edges, np.memmap(file, np.uint32, shape=(room,))[: edges[-1]])
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{path}: cannot write: {reason}; free space or choose another folder") from error

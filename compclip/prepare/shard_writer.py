"""Write shards, manifests and the noun index, and read the samples that `recaption` wrote."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from compclip.base.errors import UserError
from compclip.base.files import atomic, write_json
from compclip.data import prepared_dataset
from compclip.data.sample import NegativeImage, Region, Sample, SampleMember
from compclip.data.shard_files import SAMPLES, VERSION, Manifest, Shard, read_batch
from compclip.text.annotation_columns import to_numpy

ROWS = 4096  # samples of a shard where the source does not come in shards
SCHEMA = pa.schema([
    ("id", pa.string()), ("image", pa.string()), ("captions", pa.list_(pa.string())), ("split", pa.string()),
    ("width", pa.int32()), ("height", pa.int32()), ("offset", pa.int64()), ("length", pa.int64()),
    ("url", pa.string()), ("sha256", pa.string()), ("head", pa.uint64()),
])  # fmt: skip
LOCATION = [("offset", pa.int64()), ("length", pa.int64())]
LIST_COLUMNS = {  # a shard has them where one of its samples has a value
    "members": pa.list_(pa.struct([("name", pa.string()), *LOCATION])),
    "negatives": pa.list_(pa.struct([("image", pa.string()), *LOCATION, ("head", pa.uint64())])),
    "regions": prepared_dataset.REGION_TYPE,
}
LIST_ENTRIES = {"members": SampleMember, "negatives": NegativeImage, "regions": Region}


@dataclass(frozen=True)
class ShardTask:
    """A shard to write: its name, a hash of all that decides its content, and the inputs that its writer needs."""

    name: str
    key: str
    inputs: dict[str, Any]

    @classmethod
    def create(cls, name: str, inputs: dict[str, Any], decided_by: dict[str, Any]) -> ShardTask:
        """Return the task of a shard whose content depends on `decided_by` alone."""
        return cls(name, hashlib.sha256(json.dumps(decided_by, sort_keys=True).encode()).hexdigest()[:32], inputs)


@dataclass(frozen=True)
class ShardResult:
    """A shard that was written: its numbers of samples and captions, what was counted, its tar of pictures if any."""

    samples: int
    captions: int
    counts: dict[str, float] = field(default_factory=dict)
    pictures: str = ""  # the name under which the tar beside the shard is published


WriteShard = Callable[[ShardTask, Path], ShardResult]


def shard_name(index: int) -> str:
    """Return the name of a data set's shard by its number from 0."""
    return f"{index:05d}"


def choose_shards(folder: Path, samples: Manifest, most: int) -> list[str]:
    """Return the files of shards of samples in data/<name>/, of more than `most` some at even distances."""
    shards = samples.shards[:: max(1, -(-len(samples.shards) // most))]
    return [str(folder / SAMPLES / f"{shard.name}.arrow") for shard in shards]


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest, atomically."""
    totals = {"version": VERSION, "samples": manifest.samples, "captions": manifest.captions}
    write_json(path, totals | {"fingerprint": manifest.fingerprint, "shards": list(map(asdict, manifest.shards))})


def describe_shard(path: Path, name: str, samples: int, captions: int) -> Shard:
    """Return the manifest's entry for a shard that was written."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Shard(name, samples, captions, path.stat().st_size, digest)


def write_batch(path: Path, batch: pa.RecordBatch, compressed: bool = False) -> None:
    """Write one batch as an Arrow file, atomically; equal batches give equal bytes.

    A compressed file is read whole; others can be mapped.
    """
    options = pa.ipc.IpcWriteOptions(compression="zstd" if compressed else None)
    with atomic(path) as tmp, pa.ipc.new_file(str(tmp), batch.schema, options=options) as writer:
        writer.write_batch(batch)


def save_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Write samples as a compressed shard."""
    columns = build_columns(samples, SCHEMA) | build_list_columns(samples, LIST_COLUMNS)
    write_batch(path, pa.RecordBatch.from_pydict(columns), compressed=True)


def build_columns(rows: Sequence[Any], schema: Iterable[pa.Field]) -> dict[str, pa.Array]:
    """Return a column for each field of a schema, of the rows' attributes of that name."""
    return {field.name: make_column(list(map(attrgetter(field.name), rows)), field.type) for field in schema}


def make_column(values: Sequence[Any] | np.ndarray, kind: pa.DataType) -> pa.Array:
    """Return a column of texts, integers, or lists of them. `pyarrow.array` would import pandas, for half a second."""
    if pa.types.is_list(kind):
        edges = np.cumsum([0, *map(len, values)])
        entries = list(itertools.chain.from_iterable(values))
        return pa.ListArray.from_arrays(make_column(edges, pa.int32()), make_column(entries, kind.value_type))
    if pa.types.is_string(kind):
        texts = list(map(str.encode, values))
        edges = np.cumsum([0, *map(len, texts)]).astype(np.int32)
        return pa.StringArray.from_buffers(len(texts), pa.py_buffer(edges), pa.py_buffer(b"".join(texts)))
    numbers = np.asarray(values, str(kind))  # "int32" is its name in both
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def build_list_columns(samples: Sequence[Sample], types: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
    """Return a column for each list of samples, members, negatives or regions; none for one that no sample has."""
    columns = {}
    for name, kind in types.items():
        values = [list(map(vars, getattr(sample, name))) for sample in samples]
        if any(values):
            columns[name] = pa.array(values, kind)
    return columns


def load_samples(path: Path, stage: str = "recaption") -> list[Sample]:
    """Return the samples of a shard. Raises UserError for a missing or damaged file."""
    samples = []
    for row in read_batch(path, stage).to_pylist():
        row["captions"] = tuple(row["captions"])
        for name, kind in LIST_ENTRIES.items():
            row[name] = tuple(kind(**_freeze_lists(value)) for value in row.get(name, ()))
        samples.append(Sample(**row))
    return samples


def _freeze_lists(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


# --- the noun index: which captions of an annotated data set share a noun ---------------------------------------


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
    codes = {noun: code for code, noun in enumerate(nouns)}
    start = 0
    sizes = [np.array([counter[noun] for noun in nouns], np.int64) for counter in counts]
    with _open_lists(path, sizes[False]) as tall, _open_lists(path, sizes[True]) as wide_lists:
        for shard in shards:
            mentions = _read_mentions(shard, codes)
            for lists, selection in ((tall, ~mentions.wide), (wide_lists, mentions.wide)):
                lists.add(mentions.codes[selection], mentions.captions[selection] + np.uint32(start))
            start += mentions.caption_count
        columns = [make_column(nouns, pa.string()), tall.to_arrow(), wide_lists.to_arrow()]
        write_batch(path, pa.RecordBatch.from_arrays(columns, schema=prepared_dataset.NOUNS_SCHEMA))


class _Mentions(NamedTuple):
    """The number of a shard's captions; for each noun of a caption its code, the caption, and whether that is wide."""

    caption_count: int
    codes: np.ndarray
    captions: np.ndarray
    wide: np.ndarray


def _read_mentions(shard: Path, vocabulary: dict[str, int]) -> _Mentions:
    """Read the nouns of a shard; nouns that `vocabulary` lacks are added with the next codes."""
    batch = read_batch(shard, prepared_dataset.STAGE, mapped=True)
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
        self.edges = edges
        self.values = values
        self.next_free = edges[:-1].copy()

    def add(self, codes: np.ndarray, captions: np.ndarray) -> None:
        """Add pairs of noun and caption; captions rise from call to call."""
        order = np.argsort(codes, kind="stable")
        nouns, counts = np.unique(codes, return_counts=True)
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.values[np.repeat(self.next_free[nouns], counts) + rank] = captions[order]
        self.next_free[nouns] += counts

    def to_arrow(self) -> pa.Array:
        """Return all lists."""
        return pa.LargeListArray.from_arrays(make_column(self.edges, pa.int64()), make_column(self.values, pa.uint32()))


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

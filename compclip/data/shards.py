"""Shards: a data set in files of some thousand samples, and the manifest that stands for all of them.

    data/<name>/samples/00017.arrow  samples/manifest.json     what `recaption` leaves
    data/<name>/shards/00017.arrow   manifest.json             what `annotate` leaves: training reads it

A manifest has each shard's name, counts, size and SHA-256: whoever depends on the data reads that and no shard.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from compclip.base.errors import UserError
from compclip.base.files import atomic, read_mapping, regular, write_json
from compclip.data.sample import Member, Negative, Sample

SAMPLES, SHARDS, MANIFEST = "samples", "shards", "manifest.json"
ROWS = 4096  # samples of a shard where the source does not come in shards of its own
NAME = re.compile(r"\d{5,9}", re.ASCII)
VERSION = 1
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("image", pa.string()),
        ("captions", pa.list_(pa.string())),
        ("split", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("url", pa.string()),
        ("sha256", pa.string()),
        ("head", pa.uint64()),
    ]
)
PLACE = [("offset", pa.int64()), ("length", pa.int64())]
MORE = {  # columns that a shard has where one of its samples has something in them
    "members": (Member, pa.list_(pa.struct([("name", pa.string()), *PLACE]))),
    "negatives": (Negative, pa.list_(pa.struct([("image", pa.string()), *PLACE, ("head", pa.uint64())]))),
}


@dataclass(frozen=True)
class Shard:
    """A shard as its manifest has it; `bytes` and `sha256` are of its file."""

    name: str
    samples: int
    captions: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The shards of a data set, in their order."""

    shards: tuple[Shard, ...]

    @cached_property
    def samples(self) -> int:
        """Of all shards."""
        return sum(shard.samples for shard in self.shards)

    @cached_property
    def captions(self) -> int:
        """Of all shards."""
        return sum(shard.captions for shard in self.shards)

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal contents in equal order."""
        return hashlib.sha256("\n".join(shard.sha256 for shard in self.shards).encode()).hexdigest()


def file_name(index: int) -> str:
    """The name of a data set's shard, by its number from 0."""
    return f"{index:05d}"


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest, atomically."""
    total = {"version": VERSION, "samples": manifest.samples, "captions": manifest.captions}
    write_json(path, total | {"fingerprint": manifest.fingerprint, "shards": [asdict(s) for s in manifest.shards]})


def read_manifest(path: Path, stage: str) -> Manifest:
    """A manifest. Raises UserError where it is missing or another file; `stage` makes it."""
    if not path.is_file():
        raise UserError(f"{path}: not there; run `dvc repro {stage}` first")
    raw = read_mapping(path)
    try:
        found = tuple(Shard(**shard) for shard in raw["shards"])
        good = raw["version"] == VERSION and all(map(_sound, found))
    except (LookupError, TypeError):
        good = False
    if not good:
        raise UserError(f"{path}: not a manifest of this version; run `dvc repro {stage}` again")
    if not found:
        raise UserError(
            f"{path}: names no shard; look for files and counts of its data set, and run `dvc repro {stage}`"
        )
    return Manifest(found)


def _sound(shard: Shard) -> bool:
    numbers = (shard.samples, shard.captions, shard.bytes)
    named = isinstance(shard.name, str) and isinstance(shard.sha256, str) and NAME.fullmatch(shard.name)
    return bool(named) and all(type(number) is int and number >= 0 for number in numbers)


# --- files ----------------------------------------------------------------------------------------------------


def write_batch(path: Path, batch: pa.RecordBatch, compressed: bool = False) -> None:
    """Write one batch as an Arrow file, atomically; equal batches give equal bytes.

    What is compressed is read whole; what is not can be mapped.
    """
    options = pa.ipc.IpcWriteOptions(compression="zstd" if compressed else None)
    with atomic(path) as tmp, pa.ipc.new_file(str(tmp), batch.schema, options=options) as writer:
        writer.write_batch(batch)


def read_batch(path: Path, stage: str, mapped: bool = False) -> pa.RecordBatch:
    """The batch of an Arrow file; `mapped` takes no memory of its own until it is looked at.

    Raises UserError where the file is missing or another one; `stage` makes it.
    """
    try:
        with pa.memory_map(regular(path)) if mapped else pa.OSFile(regular(path)) as source:
            return pa.ipc.open_file(source).get_batch(0)
    except FileNotFoundError as error:
        raise UserError(f"{path}: not there; run `dvc repro {stage}` first") from error
    except (OSError, pa.ArrowException, IndexError, ValueError) as error:
        raise UserError(f"{path}: no readable shard; run `dvc repro {stage}` again") from error


def read_about(path: Path, stage: str) -> dict[str, str]:
    """What a shard says of itself, of which nothing else is read. Raises UserError as `read_batch`."""
    try:
        with pa.OSFile(regular(path)) as source:
            found = pa.ipc.open_file(source).schema.metadata or {}
        return {key.decode(): value.decode() for key, value in found.items()}
    except (OSError, pa.ArrowException, ValueError) as error:
        raise UserError(f"{path}: no readable shard; run `dvc repro {stage}` again") from error


def save(path: Path, samples: Sequence[Sample], about: dict[str, str] | None = None) -> None:
    """Write samples as a shard, with what `about` says of them."""
    columns = [pa.array([getattr(s, f.name) for s in samples], f.type) for f in SCHEMA]
    schema = SCHEMA.with_metadata(about or {})
    for name, (_, kind) in MORE.items():
        if any(getattr(sample, name) for sample in samples):
            columns.append(pa.array([[vars(one) for one in getattr(s, name)] for s in samples], kind))
            schema = schema.append(pa.field(name, kind))
    write_batch(path, pa.RecordBatch.from_arrays(columns, schema=schema), compressed=True)


def load(path: Path, stage: str = "recaption") -> list[Sample]:
    """The samples of a shard. Raises UserError as `read_batch`, and for a file with other columns."""
    batch = read_batch(path, stage)
    try:
        batch.validate(full=True)
        more = [name for name in MORE if name in batch.schema.names]
        wanted = pa.schema([*SCHEMA, *(pa.field(name, MORE[name][1]) for name in more)])
        rows = batch.select(wanted.names).cast(wanted).to_pylist()
        return [_sample(row, more) for row in rows]
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: no readable samples; run `dvc repro {stage}` again") from error


def _sample(row: dict[str, Any], more: Sequence[str]) -> Sample:
    lists = {name: tuple(MORE[name][0](**one) for one in row[name]) for name in more}
    return Sample(**{**row, "captions": tuple(row["captions"]), **lists})


def described(path: Path, name: str, samples: int, captions: int) -> Shard:
    """A shard that was written, as its manifest has it."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Shard(name, samples, captions, path.stat().st_size, digest)


def one_line(value: Any) -> str:
    """A value as a key is made of it."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True)

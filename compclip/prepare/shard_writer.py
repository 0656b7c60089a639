"""Describe and write shards and manifests, and read the samples that `recaption` wrote."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from compclip.base.errors import UserError
from compclip.base.files import atomic, check_regular, write_json
from compclip.data.sample import NegativeImage, Sample, SampleMember
from compclip.data.shard_files import VERSION, Manifest, Shard, read_batch

ROWS = 4096  # samples of a shard where the source does not come in shards
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
LOCATION = [("offset", pa.int64()), ("length", pa.int64())]
OPTIONAL_COLUMNS = {  # a shard has them where one of its samples has a value
    "members": (SampleMember, pa.list_(pa.struct([("name", pa.string()), *LOCATION]))),
    "negatives": (NegativeImage, pa.list_(pa.struct([("image", pa.string()), *LOCATION, ("head", pa.uint64())]))),
}


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
    """A shard that was written: its numbers of samples and captions, and what was counted."""

    samples: int
    captions: int
    counts: dict[str, float] = field(default_factory=dict)


WriteShard = Callable[[ShardTask, Path], ShardResult]


def shard_name(index: int) -> str:
    """Return the name of a data set's shard by its number from 0."""
    return f"{index:05d}"


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest, atomically."""
    totals = {"version": VERSION, "samples": manifest.samples, "captions": manifest.captions}
    write_json(path, totals | {"fingerprint": manifest.fingerprint, "shards": [asdict(s) for s in manifest.shards]})


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


def save_samples(path: Path, samples: Sequence[Sample], metadata: Mapping[str, str] | None = None) -> None:
    """Write samples as a compressed shard with `metadata`."""
    columns = [pa.array([getattr(s, f.name) for s in samples], f.type) for f in SCHEMA]
    schema = SCHEMA.with_metadata(dict(metadata or {}))
    for name, (_, kind) in OPTIONAL_COLUMNS.items():
        if any(getattr(sample, name) for sample in samples):
            columns.append(pa.array([[vars(value) for value in getattr(s, name)] for s in samples], kind))
            schema = schema.append(pa.field(name, kind))
    write_batch(path, pa.RecordBatch.from_arrays(columns, schema=schema), compressed=True)


def load_samples(path: Path, stage: str = "recaption") -> list[Sample]:
    """Return the samples of a shard. Raises UserError for a missing or damaged file."""
    samples = []
    for row in read_batch(path, stage).to_pylist():
        lists = {
            name: tuple(kind(**value) for value in row.get(name, ())) for name, (kind, _) in OPTIONAL_COLUMNS.items()
        }
        samples.append(Sample(**{**row, "captions": tuple(row["captions"]), **lists}))
    return samples


def read_metadata(path: Path, stage: str) -> dict[str, str]:
    """Read the metadata of a shard and nothing else of it. Raises UserError as `read_batch`."""
    try:
        with pa.OSFile(check_regular(path)) as source:
            metadata = pa.ipc.open_file(source).schema.metadata or {}
        return {key.decode(): value.decode() for key, value in metadata.items()}
    except (OSError, pa.ArrowException, ValueError) as error:
        raise UserError(f"{path}: damaged; run `dvc repro {stage}` again") from error

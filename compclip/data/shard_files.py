"""Read shards: files of some thousand samples each, and the manifest that stands for all of them.

    data/<name>/samples/00017.arrow  samples/manifest.json     written by `recaption`
    data/<name>/shards/00017.arrow   manifest.json             written by `annotate`, read by training

A manifest lists each shard's name, counts, size and SHA-256. Whatever depends on the data reads it and no shard.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from compclip.base.errors import UserError
from compclip.base.files import read_mapping

SAMPLES = "samples"
SHARDS = "shards"
MANIFEST = "manifest.json"
VERSION = 1


@dataclass(frozen=True)
class Shard:
    """A shard as its manifest lists it; `bytes` and `sha256` are those of its file."""

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
        """The number of samples in all shards."""
        return sum(shard.samples for shard in self.shards)

    @cached_property
    def captions(self) -> int:
        """The number of captions in all shards."""
        return sum(shard.captions for shard in self.shards)

    @cached_property
    def fingerprint(self) -> str:
        """A hash that is equal for equal contents in equal order."""
        return hashlib.sha256("\n".join(shard.sha256 for shard in self.shards).encode()).hexdigest()


def read_manifest(path: Path, stage: str) -> Manifest:
    """Read a manifest. Raises UserError, naming the `stage` that writes it, where it is missing, damaged or empty."""
    if not path.is_file():
        raise UserError(f"{path}: not there; run `dvc repro {stage}` first")
    content = read_mapping(path)
    with written_by(stage, path):
        manifest = Manifest(tuple(Shard(**shard) for shard in content.get("shards", ())))
        recorded = [content.get(name) for name in ("samples", "captions", "fingerprint")]
        is_whole = recorded == [manifest.samples, manifest.captions, manifest.fingerprint]
    if content.get("version") != VERSION or not manifest.shards or not is_whole:
        raise UserError(f"{path}: damaged, or not a manifest of this version; remove it and run `dvc repro {stage}`")
    return manifest


def read_batch(path: Path, stage: str, mapped: bool = False) -> pa.RecordBatch:
    """Read the batch of an Arrow file; a `mapped` one takes memory only as its values are used.

    Raises UserError, naming the `stage` that writes the file, where it is missing or damaged.
    """
    with written_by(stage, path), pa.memory_map(str(path)) if mapped else pa.OSFile(str(path)) as source:
        return pa.ipc.open_file(source).get_batch(0)


@contextmanager
def written_by(stage: str, path: Path) -> Iterator[None]:
    """Name the `stage` that writes a file in a UserError where the file is missing or damaged."""
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{path}: not there; run `dvc repro {stage}` first") from error
    except (OSError, pa.ArrowException, TypeError, ValueError) as error:
        raise UserError(f"{path}: damaged; remove it and run `dvc repro {stage}`") from error

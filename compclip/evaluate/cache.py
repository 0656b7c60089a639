"""Embeddings that earlier evaluations made: a new benchmark on known pictures and texts encodes only what is new.

Below the folder that `evaluate.cache` names there is one for each checkpoint with all that its vectors depend on: how
pictures are prepared, how it is scored, the code. In it are parts, each written whole by one evaluation under a name of
its own, so that many may write at once. A picture is known by its bytes and box, a text by its token ids.

A vector takes 32 + 4 D bytes (2 KiB for ViT-B/32: 60 MB for the 5,000 pictures and 25,000 captions of COCO's test set).
Beyond LARGEST in all, the parts that were written first are removed. The folder can be removed at any time.
A part that is not as it was written is left out, with a line.

N vectors, D joint dim.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import struct
import sys
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from compclip.base import code
from compclip.base.errors import UserError
from compclip.base.files import read_bytes, write_atomic
from compclip.config.how import How

if TYPE_CHECKING:
    from compclip.model.backbone import Model

MAGIC = b"compclip embeddings 1\n\0\0"
HEAD = struct.Struct("<24sII")  # MAGIC, N, D; then N keys, N vectors in float32, and a digest of all before
KEY = 32
SUFFIX = ".part"
MOST = 1 << 16  # vectors of a part, which is read and written as a whole
LARGEST = 8 << 30  # bytes of all checkpoints together
Vectors = dict[bytes, np.ndarray]


def key(*content: bytes) -> bytes:
    """What a picture or text is known by."""
    digest = hashlib.sha256()
    for part in content:
        digest.update(hashlib.sha256(part).digest())
    return digest.digest()


@dataclass(frozen=True)
class Cache:
    """What is known of one checkpoint, prepared and encoded in one way."""

    folder: Path
    largest: int = LARGEST

    @classmethod
    def of(cls, weights: str, model: Model, how: How) -> Cache:
        """That of a checkpoint's fingerprint. Raises UserError where the place is something else than a folder."""
        place = Path(how.cache)
        if place.exists() and not place.is_dir():
            raise UserError(f"evaluate.cache={how.cache}: is no folder; give one, or a name that is free")
        scored = {name: value for name, value in how.recorded().items() if name in ("pictures", "precision")}
        fed = [model.model_cfg, model.preprocess_cfg, scored, code.digest("compclip.evaluate.embed")]
        known = hashlib.sha256(json.dumps([weights, *fed], sort_keys=True, default=str).encode())
        return cls(place / known.hexdigest()[:32])

    def known(self, wanted: Collection[bytes]) -> Vectors:
        """Of what is wanted the vectors that are there."""
        found: Vectors = {}
        for part in sorted(self.folder.glob(f"*{SUFFIX}")):
            try:
                found |= {  # copies: a view would keep the whole part
                    one: vector_D.copy() for one, vector_D in _read(part) if one in wanted
                }
            except UserError as error:
                print(f"warning: {error}", file=sys.stderr)
        return found if len({len(vector_D) for vector_D in found.values()}) < 2 else {}

    def add(self, vectors: Mapping[bytes, np.ndarray]) -> None:
        """Leave vectors for others, and make room for them. A folder that cannot be written is no fault: a line."""
        ahead = iter(vectors.items())
        try:
            while some := dict(itertools.islice(ahead, MOST)):
                part = _part(some)
                _make_room(self.folder.parent, self.largest - len(part))
                write_atomic(self.folder / f"{uuid.uuid4().hex}{SUFFIX}", part)
        except UserError as error:
            print(f"warning: evaluate.cache: {error}", file=sys.stderr)


def _part(vectors: Mapping[bytes, np.ndarray]) -> bytes:
    vector_ND = np.stack(list(vectors.values())).astype("<f4")
    body = HEAD.pack(MAGIC, *vector_ND.shape) + b"".join(vectors) + vector_ND.tobytes()
    return body + hashlib.sha256(body).digest()


def _read(part: Path) -> Iterator[tuple[bytes, np.ndarray]]:
    """Keys and vectors of a part. Raises UserError for one that is not as it was written."""
    raw = read_bytes(part)
    magic, count, dim = HEAD.unpack_from(raw) if len(raw) >= HEAD.size else (b"", 0, 0)
    start = HEAD.size + count * KEY
    whole = len(raw) == start + 4 * count * dim + KEY and hashlib.sha256(raw[:-KEY]).digest() == raw[-KEY:]
    if magic != MAGIC or not whole or not dim:
        raise UserError(f"{part}: damaged, left out; remove it")
    vector_ND = np.frombuffer(raw, "<f4", count * dim, start).reshape(count, dim)
    if not np.allclose(np.linalg.norm(vector_ND, axis=1), 1, atol=1e-2):  # false of NaN
        raise UserError(f"{part}: holds what are no embeddings, left out; remove it")
    for row, vector_D in enumerate(vector_ND):
        yield raw[HEAD.size + row * KEY : HEAD.size + (row + 1) * KEY], vector_D


def _make_room(place: Path, room: int) -> None:
    """Remove the parts that were written first until the others take no more than `room`."""
    parts = [(stat.st_mtime, stat.st_size, part) for part in place.glob(f"*/*{SUFFIX}") for stat in _stat(part)]
    held = sum(size for _, size, _ in parts)
    for _, size, part in sorted(parts):
        if held <= room:
            return
        with contextlib.suppress(OSError):  # somebody else's cleaning
            part.unlink()
        held -= size


def _stat(part: Path) -> Iterator[os.stat_result]:
    with contextlib.suppress(OSError):
        yield part.stat()

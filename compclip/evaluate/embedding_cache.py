"""Cache the embeddings of earlier evaluations: a new benchmark encodes only pictures and texts that are new.

Below the folder that `evaluate.cache` names there is one for each checkpoint with all that its vectors depend on: how
pictures are prepared, how it is scored, the code. In it are parts, each written whole by one evaluation under a name of
its own, so that many may write at once. A picture is known by its bytes and box, a text by its token ids.

A vector takes 32 + 4 D bytes (2 KiB for ViT-B/32: 60 MB for the 5,000 pictures and 25,000 captions of COCO's test set).
Beyond LARGEST in all, the oldest parts are removed. The folder can be removed at any time. A damaged part is skipped
with a warning.

N vectors, D joint dim, K bytes of a key.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import load, save

from compclip.base import code_hash, messages
from compclip.base.errors import UserError
from compclip.base.files import read_bytes, write_atomic
from compclip.config.sections import Scoring

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel

SUFFIX = ".part"
MOST = 1 << 16  # vectors of a part, which is read and written as a whole
LARGEST = 8 << 30  # bytes of all checkpoints together
Vectors = dict[bytes, np.ndarray]


def key(*content: bytes) -> bytes:
    """Return the SHA-256 by which a picture or text is cached."""
    digest = hashlib.sha256()
    for field in content:
        digest.update(hashlib.sha256(field).digest())
    return digest.digest()


@dataclass(frozen=True)
class EmbeddingCache:
    """The cached vectors of one checkpoint, prepared and encoded in one way."""

    folder: Path
    largest: int = LARGEST

    @classmethod
    def open_for(cls, weights: str, model: ClipModel, how: Scoring) -> EmbeddingCache:
        """Return the cache of a checkpoint by its fingerprint. Raises UserError where `how.cache` is no folder."""
        root = Path(how.cache)
        if root.exists() and not root.is_dir():
            raise UserError(f"evaluate.cache={how.cache}: is no folder; give one, or a name that is free")
        scored = {name: value for name, value in how.recorded().items() if name in ("pictures", "precision")}
        code = code_hash.hash_code("compclip.evaluate.embed", "compclip.model.backbone")  # with all kinds of heads
        fed = [model.model_cfg, model.preprocess_cfg, scored, code]
        digest = hashlib.sha256(json.dumps([weights, *fed], sort_keys=True, default=str).encode())
        return cls(root / digest.hexdigest()[:32])

    def lookup(self, keys: Collection[bytes]) -> Vectors:
        """Return cached vectors for `keys`; missing keys are absent."""
        vectors: Vectors = {}
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            try:  # copies: a view would keep the whole part in memory
                vectors |= {key: vector_D.copy() for key, vector_D in _read_part(path) if key in keys}
            except UserError as error:
                messages.warn(str(error))
        return vectors

    def add(self, vectors: Mapping[bytes, np.ndarray]) -> None:
        """Write vectors and remove the oldest parts beyond `largest`; a folder that cannot be written gives a line."""
        remaining = iter(vectors.items())
        try:
            while batch := dict(itertools.islice(remaining, MOST)):
                encoded = _encode_part(batch)
                _make_room(self.folder.parent, self.largest - len(encoded))
                write_atomic(self.folder / f"{uuid.uuid4().hex}{SUFFIX}", encoded)
        except UserError as error:
            messages.warn(f"evaluate.cache: {error}")


def _encode_part(vectors: Mapping[bytes, np.ndarray]) -> bytes:
    """Return a digest, and keys and vectors in safetensors' format."""
    key_NK = np.frombuffer(b"".join(vectors), np.uint8).reshape(len(vectors), -1)
    body = save({"keys": key_NK, "vectors": np.stack(list(vectors.values())).astype(np.float32)})
    return hashlib.sha256(body).digest() + body


def _read_part(path: Path) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yield the keys and vectors of a part. Raises UserError for a damaged one."""
    raw = read_bytes(path)
    digest, body = raw[:32], raw[32:]
    if hashlib.sha256(body).digest() != digest:
        raise UserError(f"{path}: damaged, left out; remove it")
    tensors = load(body)
    for key_K, vector_D in zip(tensors["keys"], tensors["vectors"], strict=True):
        yield key_K.tobytes(), vector_D


def _make_room(folder: Path, limit: int) -> None:
    """Remove the oldest parts until the others take at most `limit` bytes."""
    files = []
    for path in folder.glob(f"*/*{SUFFIX}"):
        with contextlib.suppress(OSError):  # removed by another evaluation
            files.append((path.stat().st_mtime, path.stat().st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= limit:
            return
        path.unlink(missing_ok=True)
        total -= size

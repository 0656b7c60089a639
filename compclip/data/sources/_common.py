"""What all sources do with what they read: count what is dropped, find the pictures, read their sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.config.sections import Data
from compclip.data import images, within
from compclip.data.sample import Sample

LONG_WORDS = 1000  # a caption with more words is kept and counted
THREADS = 4


def finish(found: Iterable[tuple[str, Path, Sequence[str]]], cfg: Data) -> tuple[list[Sample], Counter]:
    """Samples of (id, picture, captions), the first `cfg.limit` records where it is > 0.

    Dropped and counted: missing and unreadable pictures, pictures without a caption, empty captions. Kept and counted:
    overlong captions, captions that a picture has twice, and pictures that were there before.
    Raises UserError where nothing is left, and for a picture outside of `cfg.images`, before one is opened.
    """
    counts: Counter = Counter()
    rows = [(name, path, _captions(texts, counts)) for name, path, texts in islice(found, cfg.limit or None)]
    if not cfg.images_outside:
        within.check(((name, str(path)) for name, path, _ in rows), cfg.images, cfg.path)
    counts["images"] = len(rows)
    counts["duplicate_images"] = len(rows) - len({path for _, path, _ in rows})
    with ThreadPoolExecutor(THREADS) as pool:
        sizes = list(pool.map(_size, (path for _, path, _ in rows)))
    samples = []
    for (name, path, texts), size in zip(rows, sizes, strict=True):
        reason = size if isinstance(size, str) else "" if texts else "no_caption"
        if reason:
            counts[reason] += 1
        else:
            samples.append(Sample(name, str(path), tuple(texts), cfg.split, *size))
    if not samples:
        raise UserError(f"no sample is left of {len(rows)} ({_told(counts)}); check this data's path, images and split")
    counts["samples"] = len(samples)
    return samples, counts


def _captions(texts: Sequence[str], counts: Counter) -> list[str]:
    kept = [caption for text in texts if (caption := " ".join(text.split()))]
    counts["empty_captions"] += len(texts) - len(kept)
    counts["duplicate_captions"] += len(kept) - len(set(kept))
    counts["long_captions"] += sum(len(text.split()) > LONG_WORDS for text in kept)
    return kept


def _size(path: Path) -> tuple[int, int] | str:
    try:
        return images.size(path)
    except images.ImageError as error:
        return f"{error.reason}_image"


def _told(counts: Counter) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items()) if n and name != "images") or "no records"


def need(record: Any, key: str, where: str, kind: type | tuple[type, ...] = str) -> Any:
    """A field of a record. Raises UserError naming file, record and field where it is missing or no `kind`."""
    if not isinstance(record, dict) or key not in record:
        raise UserError(f"{where}: no field {key!r}; the file is not in the expected format")
    if not isinstance(record[key], kind):
        found = type(record[key]).__name__
        raise UserError(f"{where}: field {key!r} is a {found}; the file is not in the expected format")
    return record[key]

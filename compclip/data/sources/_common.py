"""What all sources do with what they read: count what is dropped, find the pictures, read their sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compclip import images
from compclip.data.sample import Sample
from compclip.errors import UserError

LONG_WORDS = 1000  # a caption with more words is kept and counted
THREADS = 4


def finish(found: Iterable[tuple[str, Path, Sequence[str]]], split: str, limit: int) -> tuple[list[Sample], Counter]:
    """Samples of (id, picture, captions); counts missing and unreadable pictures, empty and overlong captions.

    Raises UserError where nothing is left.
    """
    counts: Counter = Counter()
    rows = [(name, path, _captions(texts, counts)) for name, path, texts in found]
    rows = rows[:limit] if limit else rows
    counts["images"] = len(rows)
    with ThreadPoolExecutor(THREADS) as pool:
        sizes = list(pool.map(_size, (path for _, path, _ in rows)))
    samples = []
    for (name, path, texts), size in zip(rows, sizes, strict=True):
        reason = size if isinstance(size, str) else "" if texts else "no_caption"
        if reason:
            counts[reason] += 1
        else:
            samples.append(Sample(name, str(path), tuple(texts), split, *size))
    if not samples:
        raise UserError(f"no sample is left of {len(rows)} ({_told(counts)}); check path, images and split of this data")
    counts["samples"] = len(samples)
    return samples, counts


def _captions(texts: Sequence[str], counts: Counter) -> list[str]:
    kept = [" ".join(text.split()) for text in texts]
    counts["empty_captions"] += sum(not text for text in kept)
    counts["long_captions"] += sum(len(text.split()) > LONG_WORDS for text in kept)
    return [text for text in kept if text]


def _size(path: Path) -> tuple[int, int] | str:
    try:
        return images.size(path)
    except images.ImageError as error:
        return f"{error.reason}_image"


def _told(counts: Counter) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items()) if n and name != "images") or "no records"


def need(record: dict, key: str, where: str):
    """A field of a record. Raises UserError naming file, record and field where it is missing."""
    if not isinstance(record, dict) or key not in record:
        raise UserError(f"{where}: no field {key!r}; the file is not in the expected format")
    return record[key]

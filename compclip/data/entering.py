"""Where samples enter, whatever source gave them: captions are mended, pictures found, what is dropped is counted."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from compclip.base.surrogates import has, repaired
from compclip.data import images
from compclip.data.place import Place
from compclip.data.sample import Sample

LONG_WORDS = 1000  # a caption with more words is kept and counted
HEAD = 1 << 14  # bytes of a picture that are read for its size and its checksum
THREADS = 4  # that wait for a disk


def entered(samples: Iterable[Sample], counts: Counter) -> Iterator[Sample]:
    """Samples with their captions on one line each, halves of surrogate pairs repaired in all that a source says.

    Dropped and counted: empty captions, pictures with a name that no file can have. Kept and counted: long captions,
    those that a picture has twice, repaired ones.
    """
    for sample in samples:
        counts["images"] += 1
        if has(sample.image):
            counts["unreadable_image"] += 1
            continue
        captions = _captions(sample.captions, counts)
        texts = {name: repaired(getattr(sample, name)) for name in ("id", "url", "sha256")}
        yield replace(sample, captions=captions, **texts)


def _captions(texts: Iterable[str], counts: Counter) -> tuple[str, ...]:
    raw = tuple(texts)
    kept = [caption for text in raw if (caption := " ".join(text.split()))]
    counts["empty_captions"] += len(raw) - len(kept)
    counts["duplicate_captions"] += len(kept) - len(set(kept))
    counts["long_captions"] += sum(len(text.split()) > LONG_WORDS for text in kept)
    counts["repaired_captions"] += sum(map(has, kept))
    return tuple(map(repaired, kept))


def measured(samples: Iterable[Sample], counts: Counter) -> list[Sample]:
    """The samples with the sizes of their pictures, each of which is opened once, and its first bytes are read.

    Dropped and counted: missing and unreadable pictures, pictures without a caption.
    """
    made = []
    with ThreadPoolExecutor(THREADS) as pool:
        for found in pool.map(_measured, samples):
            if isinstance(found, str):
                counts[found] += 1
            else:
                made.append(found)
    counts["samples"] += len(made)
    return made


def seen(place: Place) -> tuple[int, int, int]:
    """Width, height and checksum of a picture. Raises ImageError, or OSError where it goes in the meantime."""
    raw = images.read(place, HEAD)
    width, height = images.size(place, raw)
    return width, height, checksum(place.length or os.stat(place.path).st_size, raw)


def _measured(sample: Sample) -> Sample | str:
    try:
        width, height, head = seen(sample.picture)
    except images.ImageError as error:
        return f"{error.reason}_image"
    except OSError:  # gone since
        return "missing_image"
    if not sample.captions:
        return "no_caption"
    return replace(sample, width=width, height=height, head=head)


def checksum(length: int, raw: bytes) -> int:
    """A hash of a picture's length and first `HEAD` bytes."""
    return int.from_bytes(hashlib.blake2b(b"%d " % length + raw, digest_size=8).digest(), "little")

"""Clean the samples of a source: repair captions, check and measure pictures, count what is dropped."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from compclip.base.files import has_lone, replace_lone
from compclip.data import images
from compclip.data.sample import ImageLocation, Sample
from compclip.text.caption_cleaning import clean_caption

LONG_WORDS = 1000  # a caption with more words is kept and counted
HEAD = 1 << 14  # bytes of a picture that are read for its size and its checksum
THREADS = 4  # that wait for a disk


def clean_captions(samples: Iterable[Sample], counts: Counter) -> Iterator[Sample]:
    """Give the samples with clean captions (`text.caption_cleaning`), and no half of a surrogate pair in any text.

    Dropped and counted: empty captions, pictures whose name no file can have. Kept and counted: long captions,
    duplicates of a picture, repaired and cleaned ones, those that spell a tokenizer's marks.
    """
    for sample in samples:
        counts["images"] += 1
        if has_lone(sample.image):
            counts["unreadable_image"] += 1
            continue
        cleaned = [clean_caption(text, counts) for text in sample.captions]
        captions = list(filter(None, cleaned))
        counts["empty_captions"] += len(sample.captions) - len(captions)
        counts["duplicate_captions"] += len(captions) - len(set(captions))
        counts["long_captions"] += sum(len(text.split()) > LONG_WORDS for text in captions)
        counts["repaired_captions"] += sum(map(has_lone, sample.captions))
        yield replace(
            sample,
            id=replace_lone(sample.id),
            captions=tuple(captions),
            url=replace_lone(sample.url),
            sha256=replace_lone(sample.sha256),
        )


def measure_images(samples: Iterable[Sample], counts: Counter) -> list[Sample]:
    """Return the samples with the sizes and checksums of their pictures, each of which is opened once.

    Dropped and counted: missing and unreadable pictures, pictures without a caption.
    """
    measured = []
    with ThreadPoolExecutor(THREADS) as pool:
        for result in pool.map(_measure, samples):
            if isinstance(result, str):
                counts[result] += 1
            else:
                measured.append(result)
    counts["samples"] += len(measured)
    return measured


def _measure(sample: Sample) -> Sample | str:
    """Return the measured sample, or the reason to drop it."""
    try:
        width, height, head = read_image_header(sample.picture)
    except images.ImageError as error:
        return f"{error.reason}_image"
    if not sample.captions:
        return "no_caption"
    return replace(sample, width=width, height=height, head=head)


def read_image_header(location: ImageLocation) -> tuple[int, int, int]:
    """Return width, height and checksum of a picture. Raises ImageError."""
    head = images.read_bytes(location, HEAD)
    width, height = images.read_size(location, head)
    return width, height, checksum(location.length or os.stat(location.path).st_size, head)


def checksum(length: int, head: bytes) -> int:
    """Return a hash of a picture's length and its first `HEAD` bytes."""
    return int.from_bytes(hashlib.blake2b(b"%d " % length + head, digest_size=8).digest(), "little")

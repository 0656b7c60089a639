"""Clean the samples of a source: repair captions, check and measure pictures, count what is dropped."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from compclip.base.errors import UserError
from compclip.base.files import has_lone, replace_lone
from compclip.base.path_lists import expand_paths
from compclip.config.sections import Data
from compclip.data import images, parquet_cells
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


# --- pictures stay below their folder: a list from elsewhere may name any file, and links lead anywhere --------


class ImageFolder:
    """The folder `images` of a section, or several; `file` is named in errors. Its links are resolved once."""

    def __init__(self, images: str, file: str = "") -> None:
        self._images = images
        self._file = file
        self._roots = tuple(os.path.join(os.path.realpath(folder), "") for folder in expand_paths(images))
        self._parents: dict[str, bool] = {}

    def check(self, record: str, path: str) -> None:
        """Raise UserError where the picture of a record lies outside of the folder, links resolved."""
        if not self.contains(path):
            raise UserError(
                f"{self._file}: record {record[:200]!a}: picture {path!a} lies outside of images={self._images}; "
                "correct its name, or say images_outside: true in this section if you trust the file"
            )

    def contains(self, path: str) -> bool:
        """Return whether a picture is below the folder, or has a name that no file can have: it will be missing."""
        path = parquet_cells.file_of(path)
        parent, name = os.path.split(path)
        try:
            if parent not in self._parents:
                self._parents[parent] = self._resolves_below(parent)
            if name != ".." and self._parents[parent] and not os.path.islink(path):
                return True
            return self._resolves_below(path)
        except ValueError:
            return True

    def _resolves_below(self, path: str) -> bool:
        return os.path.join(os.path.realpath(path), "").startswith(self._roots)


def check_samples(samples: Iterable[Sample], cfg: Data) -> Iterator[Sample]:
    """Give the samples of a section, of whatever source, before their pictures are opened.

    Raises UserError for a picture outside of `cfg.images`, unless the section allows it.
    """
    folder = ImageFolder(cfg.images, cfg.path)
    checked = ""
    for sample in samples:
        if sample.image != checked and not cfg.images_outside:  # pictures of one archive follow each other
            folder.check(sample.id, sample.image)
            checked = sample.image
        yield sample


def check_images(pictures: Iterable[tuple[str, str]], images: str, file: str) -> None:
    """Raise UserError for the first of (record, picture's path) that lies outside of the folder `images`."""
    folder = ImageFolder(images, file)
    for record, path in pictures:
        folder.check(record, path)

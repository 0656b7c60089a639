"""Store smaller copies of a shard's large pictures in one tar: JPEGs of quality 95 with a given shorter side.

A tar is named after its content, so that the annotated shard that names it, and the data set's fingerprint with it,
changes with the pictures. A copy is upright and RGB as reading gives it, without EXIF and colour profile; chroma is
subsampled as Pillow does by default.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from PIL.Image import Resampling

from compclip.base.files import atomic
from compclip.data import images
from compclip.data.sample import ImageLocation, Sample
from compclip.data.tar_members import BLOCK
from compclip.prepare.sample_cleaning import THREADS

QUALITY = 95
# after scaling again by training, nearer to the picture scaled at once than by bicubic: experiments/LOG.md, 2026-11-25
KERNEL = Resampling.LANCZOS
AHEAD = 64  # pictures that are scaled before they are written
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class SmallPicture:
    """A copy: its bytes, a JPEG, and its size in pixels."""

    content: bytes
    width: int
    height: int


@dataclass(frozen=True)
class CopiedPicture:
    """A copy's place in its tar, and its size in pixels."""

    offset: int
    length: int
    width: int
    height: int


def store_small(
    samples: Sequence[Sample], short_side: int, path: Path, folder: Path
) -> tuple[list[Sample], str, Counter]:
    """Write small copies of large pictures to the tar `path`; return the samples that show them, its name, and counts.

    Large is a shorter side of more than `short_side` pixels. The copies are to be published as `folder`/<name>; without
    a large picture the name is "" and no tar is written. Other pictures stay where they are, and so do pictures that
    cannot be read, for training to count.
    """
    pictures: dict[ImageLocation, None] = {}
    for sample in samples:
        pictures[sample.picture] = None
        pictures.update({negative.picture: None for negative in sample.negatives if negative.image})
    counts = Counter[str]()
    copies = dict[ImageLocation, CopiedPicture]()
    # the file's name, or within a tar the sample's
    names = {s.picture: Path(s.id if s.length else s.image).stem for s in reversed(samples)}
    with atomic(path) as tmp:
        with open(tmp, "wb") as file:
            for picture, small in _scale_all(list(pictures), short_side):
                counts[f"short_side_{small if isinstance(small, str) else 'scaled'}"] += 1
                if isinstance(small, SmallPicture):
                    name = names.get(picture, f"{len(copies):06d}")
                    copies[picture] = _append(file, f"{name}.jpg", small)
                    counts["short_side_bytes_before"] += picture.length or os.path.getsize(picture.path)
                    counts["short_side_bytes_after"] += len(small.content)
            file.write(bytes(2 * BLOCK))
        with open(tmp, "rb") as file:
            name = f"{hashlib.file_digest(file, 'sha256').hexdigest()[:32]}.tar"
    if not copies:
        path.unlink()
        return list(samples), "", counts
    return [_move(sample, copies, str(folder / name)) for sample in samples], name, counts


def _scale_all(
    pictures: Sequence[ImageLocation], short_side: int
) -> Iterator[tuple[ImageLocation, SmallPicture | str]]:
    """Give each picture with its copy, or with why there is none; a few are scaled ahead, side by side."""
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(pictures), AHEAD):
            block = pictures[start : start + AHEAD]
            yield from zip(block, pool.map(partial(scale_picture, short_side=short_side), block), strict=True)


def scale_picture(picture: ImageLocation, short_side: int) -> SmallPicture | str:
    """Return a picture's copy whose shorter side is `short_side` pixels; "fits" for a small one, or "unreadable"."""
    try:
        if min(images.read_size(picture)) <= short_side:
            return "fits"
        full = images.load_image(picture)
    except images.ImageError:
        return UNREADABLE
    factor = short_side / min(full.size)
    if factor >= 1:  # a very large JPEG is decoded at a reduced scale
        return "fits"
    small = full.resize([round(side * factor) for side in full.size], KERNEL, reducing_gap=None)
    small.info.clear()  # comments and profiles are Pillow's to write otherwise
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=QUALITY)
    return SmallPicture(buffer.getvalue(), *small.size)


def _append(tar: IO[bytes], name: str, picture: SmallPicture) -> CopiedPicture:
    """Append a member to a tar. Equal members give equal bytes: they have no owner and no time."""
    header = tarfile.TarInfo(name)
    header.size = len(picture.content)
    tar.write(header.tobuf(tarfile.PAX_FORMAT))
    offset = tar.tell()
    tar.write(picture.content + bytes(-len(picture.content) % BLOCK))
    return CopiedPicture(offset, len(picture.content), picture.width, picture.height)


def _move(sample: Sample, copies: Mapping[ImageLocation, CopiedPicture], tar: str) -> Sample:
    """Return a sample whose picture and negative images are the copies, where there are any."""
    negatives = tuple(
        replace(negative, image=tar, offset=small.offset, length=small.length)
        if (small := copies.get(negative.picture))
        else negative
        for negative in sample.negatives
    )
    small = copies.get(sample.picture)
    return replace(sample, negatives=negatives, **({"image": tar} | vars(small) if small else {}))

"""Tars of webdataset, as CLIP_benchmark's program writes them: of each key a picture, and a text about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import check_regular
from compclip.data import tar_members
from compclip.data.tar_members import TarSample
from compclip.evaluate import picture_references

SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"))  # of pictures


def tar_files(folder: Path) -> list[Path]:
    """Return the tars of a folder sorted by number: 2.tar before 10.tar."""
    return sorted(folder.glob("*.tar"), key=lambda tar: (len(tar.name), tar.name))


def read_tar_pairs(
    folder: Path, suffix: str, most: int, missing_count: str, lost: Counter[str]
) -> Iterator[tuple[str, str, bytes]]:
    """Yield key, reference of the picture, and bytes of the member with `suffix`, for each key with both.

    The pictures are read where they lie. The others are counted as `no_picture`, or by `missing`. A text of more than
    `most` bytes is none. Raises UserError for a tar that is compressed or damaged, and a key that comes twice in it.
    """
    for tar in tar_files(folder):
        keys = set[str]()
        for group in _groups(tar):
            picture = next((member for ending, member in group.members.items() if f".{ending}" in SUFFIXES), None)
            text = group.members.get(suffix)
            if picture is None or text is None or not picture.size:
                lost["no_picture" if text else missing_count] += 1
                continue
            if group.key in keys:
                raise UserError(f"{tar}: key {group.key!r} comes twice; fetch the tar again")
            keys.add(group.key)
            ref = picture_references.bytes_of_file(str(tar), picture.offset, picture.size)
            yield f"{tar.stem}/{group.key}", ref, tar_members.read_member(str(tar), text, most) or b""


def _groups(tar: Path) -> list[TarSample]:
    try:
        return list(tar_members.iterate_samples(check_regular(tar)))
    except tar_members.DamagedTar as error:
        raise UserError(f"{error}; an uncompressed tar belongs there: fetch it again") from error

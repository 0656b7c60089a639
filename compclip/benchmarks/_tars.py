"""Tars of webdataset, as CLIP_benchmark's program writes them: of each key a picture, and a text about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import regular
from compclip.data import tars
from compclip.data.tars import Group, Member
from compclip.evaluate import boxes

SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"))  # of pictures


def found(folder: Path) -> list[Path]:
    """The tars of a folder by number: 2.tar before 10.tar."""
    return sorted(folder.glob("*.tar"), key=lambda tar: (len(tar.name), tar.name))


def told(folder: Path, suffix: str, most: int, missing: str, lost: Counter[str]) -> Iterator[tuple[str, str, bytes]]:
    """Key, reference of the picture, and the bytes of the member with this suffix, of every key that has both.

    The pictures are read where they lie. The others are counted as `no_picture`, or by `missing`. A text of more than
    `most` bytes is none. Raises UserError for a tar that is compressed or damaged, and a key that comes twice in it.
    """
    for tar in found(folder):
        seen = set[str]()
        for group in _groups(tar):
            picture, text = _picture(group), group.members.get(suffix)
            if picture is None or text is None or not picture.size:
                lost["no_picture" if text else missing] += 1
                continue
            if group.key in seen:
                raise UserError(f"{tar}: key {group.key!r} comes twice; fetch the tar again")
            seen.add(group.key)
            ref = boxes.within(str(tar), picture.offset, picture.size)
            yield f"{tar.stem}/{group.key}", ref, tars.content(str(tar), text, most) or b""


def _groups(tar: Path) -> list[Group]:
    try:
        return list(tars.groups(regular(tar)))
    except tars.DamagedTar as error:
        raise UserError(f"{error}; an uncompressed tar belongs there: fetch it again") from error


def _picture(group: Group) -> Member | None:
    return next((member for suffix, member in group.members.items() if f".{suffix}" in SUFFIXES), None)

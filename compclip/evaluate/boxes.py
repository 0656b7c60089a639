"""References of images: a path, bytes within an archive, or a part of the picture at either."""

from __future__ import annotations

import re
from collections.abc import Sequence

from compclip.data.place import Place

BOX = "#box="  # path#box=x,y,width,height in pixels
WITHIN = "#bytes="  # path#bytes=offset,length
_BOXED = re.compile(rf"(.*){BOX}([^,/]+),([^,/]+),([^,/]+),([^,/]+)", re.S)
_WITHIN = re.compile(rf"(.*){WITHIN}(\d{{1,18}}),(\d{{1,18}})", re.S | re.A)


def boxed(path: str, box: Sequence[float] | None) -> str:
    """The reference of an image, or of a part of it: (x, y, width, height) in pixels."""
    return path if box is None else f"{path}{BOX}{','.join(map(_told, box))}"


def within(path: str, offset: int, length: int) -> str:
    """The reference of an image that is `length` bytes of a file, from `offset` on. They sort in the file's order."""
    return f"{path}{WITHIN}{offset:012},{length}"


def _told(number: float) -> str:
    try:
        return f"{number:g}"
    except OverflowError:  # an integer of hundreds of digits
        return "inf"


def unboxed(ref: str) -> tuple[str | Place, tuple[float, ...] | None]:
    """The picture of a reference, and its box where it has one; a file's own name may hold the mark of a box."""
    if BOX in ref and (found := _BOXED.fullmatch(ref)):
        path, *numbers = found.groups()
        try:
            return _placed(path), tuple(map(float, numbers))
        except ValueError:
            pass
    return _placed(ref), None


def _placed(path: str) -> str | Place:
    if WITHIN in path and (found := _WITHIN.fullmatch(path)) and int(found[3]):
        return Place(found[1], int(found[2]), int(found[3]))
    return path


def file_of(picture: str | Place) -> str:
    """The file that holds a picture."""
    return picture.path if isinstance(picture, Place) else picture

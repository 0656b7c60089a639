"""References of images: a path, or a part of the picture at a path."""

from __future__ import annotations

import re
from collections.abc import Sequence

BOX = "#box="  # path#box=x,y,width,height in pixels
_BOXED = re.compile(rf"(.*){BOX}([^,/]+),([^,/]+),([^,/]+),([^,/]+)", re.S)


def boxed(path: str, box: Sequence[float] | None) -> str:
    """The reference of an image, or of a part of it: (x, y, width, height) in pixels."""
    return path if box is None else f"{path}{BOX}{','.join(map(_told, box))}"


def _told(number: float) -> str:
    try:
        return f"{number:g}"
    except OverflowError:  # an integer of hundreds of digits
        return "inf"


def unboxed(ref: str) -> tuple[str, tuple[float, ...] | None]:
    """The path of a reference, and its box where it has one; a file's own name may hold the mark of a box."""
    if BOX in ref and (found := _BOXED.fullmatch(ref)):
        path, *numbers = found.groups()
        try:
            return path, tuple(map(float, numbers))
        except ValueError:
            pass
    return ref, None

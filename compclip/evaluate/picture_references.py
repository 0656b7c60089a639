"""References of images: a path, bytes within an archive, or a part of the picture at either."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import PurePath

from compclip.data.sample import ImageLocation

BOX = "#box="  # path#box=x,y,width,height in pixels
BYTES = "#bytes="  # path#bytes=offset,length
_BOXED = re.compile(rf"(.*){BOX}([^,/]+),([^,/]+),([^,/]+),([^,/]+)", re.S)
_COCO = re.compile(r"(COCO_[a-z]+20\d\d_)?(?P<number>\d{12})\.[A-Za-z]{3,4}", re.ASCII)
_BYTES = re.compile(rf"(.*){BYTES}(\d{{1,18}}),(\d{{1,18}})", re.S | re.A)


def with_box(path: str, box: Sequence[float] | None) -> str:
    """Return the reference of an image, or of a part of it: (x, y, width, height) in pixels."""
    if box is None:
        return path
    try:
        return f"{path}{BOX}{','.join(f'{number:g}' for number in box)}"
    except OverflowError:  # an integer of hundreds of digits
        return f"{path}{BOX}inf,inf,inf,inf"


def bytes_of_file(path: str, offset: int, length: int) -> str:
    """Return the reference of an image: `length` bytes of a file, from `offset` on. They sort in the file's order."""
    return f"{path}{BYTES}{offset:012},{length}"


def parse_reference(ref: str) -> tuple[str | ImageLocation, tuple[float, ...] | None]:
    """Return the picture of a reference, and its box where it has one; a file's name may hold the mark of a box."""
    if BOX in ref and (match := _BOXED.fullmatch(ref)):
        path, *numbers = match.groups()
        try:
            return _parse_bytes(path), tuple(map(float, numbers))
        except ValueError:
            pass
    return _parse_bytes(ref), None


def _parse_bytes(path: str) -> str | ImageLocation:
    if BYTES in path and (match := _BYTES.fullmatch(path)) and int(match[3]):
        return ImageLocation(match[1], int(match[2]), int(match[3]))
    return path


def number_picture(ref: str, subset: str = "") -> int:
    """Return a picture's number, which is the same in every benchmark that shows it; 48 bits of a hash.

    A picture goes by its file's name, one of COCO by COCO's number in it, one in an archive by its place there too;
    with `subset`, that of a benchmark, by the names of subset, folder and file.
    """
    picture = parse_reference(ref)[0]
    path = PurePath(file_of(picture))
    name = f"{subset}/{path.parent.name}/{path.name}" if subset else path.name
    if match := _COCO.fullmatch(name):
        name = f"COCO {match['number']}"
    if isinstance(picture, ImageLocation):
        name += f" {picture.offset}"
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:6], "big")


def file_of(picture: str | ImageLocation) -> str:
    """Return the file that holds a picture."""
    return picture.path if isinstance(picture, ImageLocation) else picture

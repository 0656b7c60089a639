"""Pictures as they come: rotated, transparent, grey, CMYK, 16 bit, truncated, huge; all become RGB or a named error.

H, W pixels. Pillow reads some forty formats, of which one starts another program and several end in any error there is:
the common ones are opened, and whatever goes wrong in one of them is an ImageError.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from PIL import (  # the formats, by name: Pillow would import all forty to find one that is not there yet
    BmpImagePlugin,  # noqa: F401
    GifImagePlugin,  # noqa: F401
    Image,
    ImageOps,
    JpegImagePlugin,  # noqa: F401
    PngImagePlugin,  # noqa: F401
    PpmImagePlugin,  # noqa: F401
    TiffImagePlugin,  # noqa: F401
    UnidentifiedImageError,
    WebPImagePlugin,  # noqa: F401
)

from compclip.base.errors import UserError
from compclip.data.place import MAX_BYTES, Place

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
MAX_PIXELS = 178_000_000  # beyond it a picture counts as unreadable; Pillow refuses a little more
PROPORTION = 200  # a model scales the shorter side to its own: beyond it a strip becomes gigabytes
TURNED = frozenset(("exif", "Raw profile type exif", "XML:com.adobe.xmp", "xmp"))  # where Pillow looks in a PNG
DRAFT_SIDE = 1024  # JPEGs much larger than this are decoded at a reduced scale


Picture = str | Path | Place


class ImageError(UserError):
    """A picture that cannot be used; `reason` is "missing" or "unreadable", or of a part of one "box"."""

    def __init__(self, path: Picture, reason: str, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.reason = reason


def load(path: Picture, upright: bool = True) -> Image.Image:
    """The picture in RGB, upright (EXIF), transparency on white, 16 bit scaled to 8. Raises ImageError.

    Not `upright`: as Pillow's own `convert("RGB")` gives it, which most evaluations use: lying as it is stored, without
    its transparency, 16 bit as Pillow takes them, and large JPEGs at their full size.
    """
    with _opened(path) as picture:
        if not upright:
            picture.load()
            picture.info.pop("transparency", None)  # what Pillow leaves out it warns of
            return picture.convert("RGB")
        picture.draft("RGB", (DRAFT_SIDE, DRAFT_SIDE))
        picture.load()
        return _rgb(ImageOps.exif_transpose(picture) if _may_be_turned(picture) else picture)


def size(path: Picture, head: bytes | None = None, upright: bool = True) -> tuple[int, int]:
    """Width and height as shown, read from the header alone: from `head`, the picture's first bytes, where they do.

    Not `upright`: as the picture is stored. Raises ImageError.
    """
    if head is not None:
        try:
            return _size(path, io.BytesIO(head), upright)
        except ImageError:  # a header that goes on behind them, or another fault, which the whole picture will tell
            pass
    return _size(path, upright=upright)


def read(path: Picture, length: int = -1) -> bytes:
    """The picture's bytes as they are, or the first `length` of them. Raises ImageError where they cannot be had."""
    if not isinstance(path, Place) or not path.length:
        _check_file(str(path))
        with _unreadable(path), open(str(path), "rb") as file:
            return file.read(length)
    if path.length > MAX_BYTES:
        raise ImageError(path, "unreadable", f"{path.length} bytes are more than {MAX_BYTES}")
    wanted = path.length if length < 0 else min(length, path.length)
    with _unreadable(path), open(path.path, "rb", buffering=0) as file:
        raw = os.pread(file.fileno(), wanted, path.offset)
    if len(raw) != wanted:
        raise ImageError(path, "unreadable", "the archive ends within this picture")
    return raw


def _size(path: Picture, file: IO[bytes] | None = None, upright: bool = True) -> tuple[int, int]:
    with _opened(path, file) as picture:
        width, height = picture.size
        if not upright:
            return width, height
        # Pillow decodes a whole PNG to look for an orientation behind its pixels
        known = picture.format != "PNG" or "exif" in picture.info
        turned = known and picture.getexif().get(0x0112, 1) in (5, 6, 7, 8)
        return (height, width) if turned else (width, height)


def is_strip(width: float, height: float) -> bool:
    """Whether one side is so much longer than the other, or the other nothing, that no model can take the picture."""
    return not 0 < max(width, height) <= PROPORTION * min(width, height)


@contextmanager
def _unreadable(path: Picture) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ImageError(path, "missing", "no such picture") from error
    except OSError as error:
        raise ImageError(path, "unreadable", str(error.strerror)) from error


@contextmanager
def _opened(path: Picture, file: IO[bytes] | None = None) -> Iterator[Image.Image]:
    """The picture, from `file` where that is given; whatever fails while it is used is an ImageError."""
    within = isinstance(path, Place) and path.length > 0
    if file is None and within:
        file = io.BytesIO(read(path))
    if file is None:
        _check_file(str(path))
    try:
        with Image.open(file or str(path), formats=FORMATS) as picture:
            _check_size(path, *picture.size)
            yield picture
    except ImageError:
        raise
    except Image.DecompressionBombError as error:
        raise ImageError(path, "unreadable", f"more than {MAX_PIXELS} pixels") from error
    except UnidentifiedImageError as error:
        raise ImageError(path, "unreadable", f"not a picture of a known format ({', '.join(FORMATS)})") from error
    except Exception as error:  # Pillow's decoders raise what there is, MemoryError and struct.error among them
        raise ImageError(path, "unreadable", f"cannot be decoded ({type(error).__name__}: {error})") from error


def _check_file(path: str) -> None:
    try:
        path.encode()
        kind = os.stat(path).st_mode
    except UnicodeEncodeError as error:
        raise ImageError(path, "unreadable", "its name is not UTF-8") from error
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise ImageError(path, "missing", "no such picture") from error
    except OSError as error:
        raise ImageError(path, "unreadable", str(error.strerror)) from error
    if not stat.S_ISREG(kind):
        reason = "missing" if stat.S_ISDIR(kind) else "unreadable"
        raise ImageError(path, reason, "no such picture, but something else of its name")


def _check_size(path: Picture, width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise ImageError(path, "unreadable", f"{width} x {height} is more than {MAX_PIXELS} pixels")
    if is_strip(width, height):
        raise ImageError(path, "unreadable", f"{width} x {height}: one side is over {PROPORTION} times the other")


def _may_be_turned(picture: Image.Image) -> bool:
    """Whether a picture may hold an orientation; to look for one that a PNG lacks takes longer than its pixels."""
    return picture.format != "PNG" or not TURNED.isdisjoint(picture.info)


def _rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I") or picture.mode == "F":
        picture = _eight_bit(picture)
    if "A" in picture.getbands() or "transparency" in picture.info:
        rgba = picture.convert("RGBA")
        ground = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(ground, rgba).convert("RGB")
    return picture.convert("RGB")


def _eight_bit(picture: Image.Image) -> Image.Image:
    """16-bit grey to 8 bit: Pillow's own conversion clips at 255 instead of scaling."""
    import numpy as np

    values_HW = np.asarray(picture).astype(np.float64)
    sixteen = picture.mode.startswith("I;16") or values_HW.max() > 255  # I and F do not say how many bits they had
    top = 65535.0 if sixteen else 255.0
    return Image.fromarray((values_HW / top * 255).clip(0, 255).astype(np.uint8), "L")

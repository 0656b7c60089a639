"""Read pictures that may be rotated, transparent, grey, CMYK, 16 bit, truncated or huge: RGB, or an ImageError.

H, W pixels. Pillow reads some forty formats; one of them starts another program, and several raise arbitrary errors.
Only the common formats are opened, and every failure in one of them is an ImageError.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from PIL import (  # formats by name: to recognise an unknown file Pillow would import all forty
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
from compclip.data import parquet_cells
from compclip.data.sample import ImageLocation

MAX_BYTES = 1 << 28  # of a picture within an archive, which is read whole
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
MAX_PIXELS = 178_000_000  # a larger picture counts as unreadable; Pillow's own bound is a little higher
MAX_ASPECT_RATIO = 200  # a model scales the shorter side to its own size: a narrower strip becomes gigabytes
PNG_ORIENTATION_KEYS = frozenset(("exif", "Raw profile type exif", "XML:com.adobe.xmp", "xmp"))  # as Pillow reads them
DRAFT_SIDE = 1024  # much larger JPEGs are decoded at a reduced scale
SIDEWAYS = (5, 6, 7, 8)  # EXIF orientations that exchange width and height
ImageSource = str | Path | ImageLocation


class ImageError(UserError):
    """A picture that cannot be used; `reason` is "missing", "unreadable", or "box" for an unusable crop."""

    def __init__(self, path: ImageSource, reason: str, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.reason = reason


def load_image(path: ImageSource, upright: bool = True) -> Image.Image:
    """Return the picture in RGB, upright (EXIF), transparency on white, 16 bit scaled to 8. Raises ImageError.

    Not `upright`: as Pillow's own `convert("RGB")` gives it, which most evaluations use: oriented as it is stored,
    without its transparency, 16 bit as Pillow converts them, and large JPEGs at their full size.
    """
    with _open_image(path) as picture:
        if not upright:
            picture.load()
            picture.info.pop("transparency", None)  # Pillow warns of what it leaves out
            return picture.convert("RGB")
        picture.draft("RGB", (DRAFT_SIDE, DRAFT_SIDE))
        picture.load()
        # looking for an orientation that a PNG lacks takes longer than decoding it
        if picture.format != "PNG" or not PNG_ORIENTATION_KEYS.isdisjoint(picture.info):
            ImageOps.exif_transpose(picture, in_place=True)
        return picture if picture.format == "JPEG" and picture.mode == "RGB" else _to_rgb(picture)


def read_size(path: ImageSource, head: bytes | None = None, upright: bool = True) -> tuple[int, int]:
    """Return width and height as shown, from the header alone: from the first bytes `head` where they suffice.

    Not `upright`: as the picture is stored. Raises ImageError.
    """
    if head is not None:
        try:
            return _read_header(path, io.BytesIO(head), upright)
        except ImageError:  # a header longer than `head`, or a fault that the whole file will show
            pass
    return _read_header(path, None, upright)


def _read_header(path: ImageSource, file: IO[bytes] | None, upright: bool) -> tuple[int, int]:
    with _open_image(path, file) as picture:
        width, height = picture.size
        # without "exif" Pillow would decode a whole PNG to look for an orientation behind its pixels
        may_be_turned = upright and (picture.format != "PNG" or "exif" in picture.info)
        sideways = may_be_turned and picture.getexif().get(0x0112, 1) in SIDEWAYS
        return (height, width) if sideways else (width, height)


def read_bytes(path: ImageSource, length: int = -1) -> bytes:
    """Return the picture's bytes, or the first `length` of them. Raises ImageError where they cannot be read."""
    location = path if isinstance(path, ImageLocation) and path.length else None
    if location is None:
        _check_file(str(path))
    elif location.length > MAX_BYTES:
        raise ImageError(path, "unreadable", f"{location.length} bytes are more than {MAX_BYTES}")
    try:
        if location is None:
            with open(str(path), "rb") as file:
                return file.read(length)
        count = location.length if length < 0 else min(length, location.length)
        if parquet_cells.is_cell(location.path):
            content = parquet_cells.read_cell(location.path, location.offset)[:count]
        else:
            with open(location.path, "rb", buffering=0) as archive:
                content = os.pread(archive.fileno(), count, location.offset)
    except OSError as error:
        raise _explain_file_error(path, error) from error
    if len(content) != count:
        raise ImageError(path, "unreadable", "the archive ends within this picture")
    return content


def is_too_narrow(width: float, height: float) -> bool:
    """Return whether a side is zero, or over `MAX_ASPECT_RATIO` times the other: no model can take such a picture."""
    return not 0 < max(width, height) <= MAX_ASPECT_RATIO * min(width, height)


@contextmanager
def _open_image(path: ImageSource, file: IO[bytes] | None = None) -> Iterator[Image.Image]:
    """Open the picture, from `file` if given; every failure while it is open is an ImageError."""
    if file is None and isinstance(path, ImageLocation) and path.length > 0:
        file = io.BytesIO(read_bytes(path))
    if file is None:
        _check_file(str(path))
    try:
        with Image.open(file or str(path), formats=FORMATS) as picture:
            width, height = picture.size
            if width * height > MAX_PIXELS:
                raise Image.DecompressionBombError(f"{width} x {height}")
            if is_too_narrow(width, height):
                detail = f"{width} x {height}: one side is over {MAX_ASPECT_RATIO} times the other"
                raise ImageError(path, "unreadable", detail)
            yield picture
    except ImageError:
        raise
    except Exception as error:  # Pillow's decoders raise anything, MemoryError and struct.error among them
        detail = f"cannot be decoded ({type(error).__name__}: {error})"
        if isinstance(error, Image.DecompressionBombError):
            detail = f"more than {MAX_PIXELS} pixels ({error})"
        elif isinstance(error, UnidentifiedImageError):
            detail = f"not a picture of a known format ({', '.join(FORMATS)})"
        raise ImageError(path, "unreadable", detail) from error


def _check_file(path: str) -> None:
    """Raise ImageError for what is no regular file: opening a pipe would wait for ever."""
    try:
        path.encode()
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        raise _explain_file_error(path, error) from error
    if not stat.S_ISREG(mode):
        reason = "missing" if stat.S_ISDIR(mode) else "unreadable"
        raise ImageError(path, reason, "no such picture, but something else of its name")


def _explain_file_error(path: ImageSource, error: OSError | ValueError) -> ImageError:
    """Return what an error of the file system means for a picture."""
    if isinstance(error, UnicodeEncodeError):
        return ImageError(path, "unreadable", "its name is not UTF-8")
    if isinstance(error, (FileNotFoundError, NotADirectoryError, ValueError)):
        return ImageError(path, "missing", "no such picture")
    return ImageError(path, "unreadable", str(error.strerror or error))


def _to_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I") or picture.mode == "F":
        picture = _to_eight_bit(picture)
    if "A" in picture.getbands() or "transparency" in picture.info:
        rgba = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return picture.convert("RGB")


def _to_eight_bit(picture: Image.Image) -> Image.Image:
    """Scale 16-bit grey to 8 bit: Pillow's own conversion clips at 255 instead."""
    import numpy as np

    values_HW = np.asarray(picture).astype(np.float64)
    sixteen_bit = picture.mode.startswith("I;16") or values_HW.max() > 255  # modes I and F do not say their depth
    maximum = 65535.0 if sixteen_bit else 255.0
    return Image.fromarray((values_HW / maximum * 255).clip(0, 255).astype(np.uint8), "L")

"""Pictures as they come: rotated, transparent, grey, CMYK, 16 bit, truncated, huge; all become RGB or a named error.

H, W pixels.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageOps

from compclip.base.errors import UserError

MAX_PIXELS = 178_000_000  # beyond it a picture counts as unreadable; Pillow refuses a little more
TURNED = frozenset(("exif", "Raw profile type exif", "XML:com.adobe.xmp", "xmp"))  # where Pillow looks in a PNG
DRAFT_SIDE = 1024  # JPEGs much larger than this are decoded at a reduced scale


class ImageError(UserError):
    """A picture that cannot be used; `reason` is "missing" or "unreadable"."""

    def __init__(self, path: str | Path, reason: str, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.reason = reason


def load(path: str | Path) -> Image.Image:
    """The picture in RGB, upright (EXIF), transparency on white, 16 bit scaled to 8. Raises ImageError."""
    with _opened(path) as picture:
        try:
            picture.draft("RGB", (DRAFT_SIDE, DRAFT_SIDE))
            picture.load()
            return _rgb(ImageOps.exif_transpose(picture) if _may_be_turned(picture) else picture)
        except (OSError, SyntaxError, ValueError, EOFError) as error:
            raise ImageError(path, "unreadable", f"cannot be decoded ({error})") from error


def size(path: str | Path) -> tuple[int, int]:
    """Width and height as shown, read from the header alone. Raises ImageError."""
    with _opened(path) as picture:
        width, height = picture.size
        try:
            # Pillow decodes a whole PNG to look for an orientation behind its pixels
            known = picture.format != "PNG" or "exif" in picture.info
            turned = known and picture.getexif().get(0x0112, 1) in (5, 6, 7, 8)
        except (OSError, SyntaxError, ValueError, EOFError) as error:
            raise ImageError(path, "unreadable", f"cannot be decoded ({error})") from error
        return (height, width) if turned else (width, height)


def _opened(path: str | Path) -> Image.Image:
    try:
        picture = Image.open(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise ImageError(path, "missing", "no such picture") from error
    except Image.DecompressionBombError as error:
        raise ImageError(path, "unreadable", f"more than {MAX_PIXELS} pixels") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise ImageError(path, "unreadable", f"not a picture ({type(error).__name__})") from error
    if picture.width * picture.height > MAX_PIXELS:
        picture.close()
        raise ImageError(path, "unreadable", f"{picture.width} x {picture.height} is more than {MAX_PIXELS} pixels")
    return picture


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

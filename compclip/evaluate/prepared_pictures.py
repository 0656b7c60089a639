"""Pictures as a model takes them: read, cut out, scaled; once for all checkpoints of a stage, as far as memory goes."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PIL.Image import Image

from compclip.data import images as data_images
from compclip.evaluate.picture_references import parse_reference

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel

CACHE_BYTES = 2 << 30  # bytes of prepared pictures: some ten thousand of 224 x 224
PIXEL = 4  # bytes, as Pillow holds RGB
FARTHEST = 1e9  # pixels from a picture's corner: Pillow counts in 32 bits
COLOURS = ("mean", "std")  # of a preparation what is done with numbers, later


class PreparedPictures:
    """Prepared pictures, of which as many as there is room for are kept for the next pass; by default none.

    Models that differ in their preparation share none. Threads may ask at once.
    """

    def __init__(self, room: int = 0) -> None:
        self._room = room
        self._kept: dict[tuple[str, str], Image | str] = {}
        self._lock = threading.Lock()

    def prepare(self, ref: str, model: ClipModel, upright: bool) -> Image | str:
        """The picture as the model takes it, or why there is none."""
        preparation = {name: value for name, value in model.preprocess_cfg.items() if name not in COLOURS}
        cache_key = ref, json.dumps([preparation, upright], sort_keys=True)
        if cache_key in self._kept:
            return self._kept[cache_key]
        prepared = _prepare(ref, model, upright)
        size = len(prepared) if isinstance(prepared, str) else PIXEL * prepared.width * prepared.height
        with self._lock:
            if size <= self._room:
                self._room -= size
                self._kept[cache_key] = prepared
        return prepared


def _prepare(ref: str, model: ClipModel, upright: bool) -> Image | str:
    """The picture as the model takes it, or why there is none."""
    path, box = parse_reference(ref)
    try:
        picture = data_images.load_image(path, upright)
        return model.fit_picture(crop_to_box(picture, path, box, upright) if box else picture)
    except data_images.ImageError as error:
        return error.reason


def crop_to_box(picture: Image, path: data_images.ImageSource, box: Sequence[float], upright: bool = True) -> Image:
    """The part of the picture in the box, which is given in pixels of the full size; large JPEGs are read smaller.

    What a box has outside is black, as in the authors' code. Raises ImageError for a box that is none or outside.
    """
    full = data_images.read_size(path, upright=upright)
    if not _is_box(box, *full):
        raise data_images.ImageError(path, "box", f"{full[0]} x {full[1]} has no such part: {box}")
    x, y, width, height = (number * picture.width / full[0] for number in box)
    left, top, right, bottom = (round(number) for number in (x, y, x + width, y + height))
    if not (left < picture.width and right > 0 and top < picture.height and bottom > 0):
        raise data_images.ImageError(path, "box", f"{full[0]} x {full[1]} has nothing of the part {box}")
    return picture.crop((left, top, max(right, left + 1), max(bottom, top + 1)))  # a part of a pixel is the pixel


def _is_box(box: Sequence[float], full_width: int, full_height: int) -> bool:
    """Whether numbers make a box, and one that is not so much larger than its picture that it fills the memory."""
    width, height = box[2:]
    is_bounded = all(abs(number) <= FARTHEST for number in box)  # false of NaN
    is_one = is_bounded and width > 0 and height > 0 and not data_images.is_too_narrow(width, height)
    return is_one and width * height <= 4 * full_width * full_height

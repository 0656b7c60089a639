"""Two ways to scale pictures: Pillow's, which the papers' programs take, and torch's, several times as fast.

Both weigh the pixels by the same antialiased cubic kernel, in two passes. torch rounds the weights otherwise, and takes
rows before columns where Pillow takes what is cheaper. So values of uint8 differ by one grey level: 0.4 % of them in
COCO's photographs, a fifth in narrow high pictures. H, W pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn import functional as F

from compclip.base.errors import UserError
from compclip.model.clip_model import side_lengths

Box = tuple[int, int, int, int]  # left, upper, right, lower: pixels
Size = tuple[int, int]  # width, height
Resize = Callable[[Image.Image, Size], Image.Image]
Fit = Callable[[Image.Image], Image.Image]


def resize_by_pillow(picture: Image.Image, size: Size) -> Image.Image:
    """Scale a picture to a size by Pillow's cubic interpolation."""
    return picture.resize(size, Image.Resampling.BICUBIC)


def resize_by_torch(picture: Image.Image, size: Size, kernel: str = "bicubic") -> Image.Image:
    """Scale a picture in RGB to a size by torch's antialiased interpolation, on uint8."""
    value_1HW3 = torch.from_numpy(np.array(picture))[None]
    scaled_13HW = F.interpolate(value_1HW3.permute(0, 3, 1, 2), size[::-1], mode=kernel, antialias=True)
    return Image.fromarray(scaled_13HW[0].permute(1, 2, 0).contiguous().numpy())


def open_torch_fit(preprocess: Mapping[str, Any]) -> Fit:
    """Return what crops and scales pictures as a model's evaluation transform does, by torch.

    `preprocess`: the model's, in open_clip's format. Raises UserError for ways that are not written here.
    """
    height, width = side_lengths(preprocess["size"])
    mode, kernel = preprocess["resize_mode"], preprocess["interpolation"]
    if kernel not in ("bicubic", "bilinear") or not (mode == "squash" or (mode == "shortest" and height == width)):
        raise UserError(
            f"train.resize=torch: the backbone fits pictures of {width} x {height} by {mode!r} and {kernel!r}; "
            "must be a square by 'shortest', or 'squash', and bicubic or bilinear: set train.resize=pil"
        )

    def fit(picture: Image.Image) -> Image.Image:
        if picture.size == (width, height):
            return picture
        size = (width, height) if mode == "squash" else scale_shorter_side(picture.size, width)
        return crop_centre(resize_by_torch(picture, size, kernel), (width, height))

    return fit


def find_shown_part(size: Size, mode: str) -> tuple[float, float, float, float]:
    """Return which part of a picture its evaluation transform shows, as left, upper, right, lower in shares of it.

    `mode` is the transform's, in open_clip's format; what "longest" adds around the picture lies beyond 0 and 1.
    """
    if mode == "squash":
        return 0.0, 0.0, 1.0, 1.0
    extent = min(size) if mode == "shortest" else max(size)
    across, down = (extent / side / 2 for side in size)
    return 0.5 - across, 0.5 - down, 0.5 + across, 0.5 + down


def scale_shorter_side(size: Size, side: int) -> Size:
    """Return a size whose shorter side is `side`, the longer one rounded down, as torchvision does."""
    width, height = size
    return (side, int(side * height / width)) if width <= height else (int(side * width / height), side)


def crop_centre(picture: Image.Image, size: Size) -> Image.Image:
    """Return the middle of a picture, rounded as torchvision does."""
    if picture.size == size:
        return picture
    left, upper = (int(round((have - want) / 2.0)) for have, want in zip(picture.size, size, strict=True))
    return picture.crop((left, upper, left + size[0], upper + size[1]))

"""Training pictures: a random part of each, scaled to the model's square (RandomResizedCrop).

FSC-CLIP, C2LIP, NegCLIP and SVLC train on 90 to 100 % of a picture's area; the rule is torchvision's, by which they
do it, drawn from a generator of our own so that a crop depends on (seed, epoch, sample) alone.

H, W pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    import numpy as np

TRIES = 10  # as in torchvision: parts that stick out are drawn again, and then the middle is taken
RATIO = (3 / 4, 4 / 3)  # width to height

Box = tuple[int, int, int, int]  # left, upper, right, lower: pixels


@dataclass(frozen=True)
class RandomResizedCrop:
    """`low` to `high` of a picture's area, at a width to height of 3/4 to 4/3."""

    low: float
    high: float

    def __call__(self, picture: Image.Image, side: int, rng: np.random.Generator) -> Image.Image:
        """Return a square of `side` pixels, scaled by cubic interpolation as open_clip's training transform does."""
        cropped = picture.crop(self.draw_box(*picture.size, rng))
        return cropped.resize((side, side), Image.Resampling.BICUBIC)

    def draw_box(self, width: int, height: int, rng: np.random.Generator) -> Box:
        """Draw the box that is cropped."""
        for _ in range(TRIES):
            area = width * height * rng.uniform(self.low, self.high)
            ratio = math.exp(rng.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                left, upper = int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1))
                return left, upper, left + w, upper + h
        return central_box(width, height)


def central_box(width: int, height: int) -> Box:
    """Return the whole picture, cut around its centre to the nearest allowed ratio."""
    w = min(width, max(1, round(height * RATIO[1])))
    h = min(height, max(1, round(width / RATIO[0])))
    left, upper = (width - w) // 2, (height - h) // 2
    return left, upper, left + w, upper + h

"""CLIC's composites: two pictures of one orientation in one square, and the partners of a caption (CLIC Sec. 3.1, B.4).

H, W pixels. Wide pictures are at least as wide as high, the others are tall.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from compclip.train.picture_resizing import Resize, resize_by_pillow

if TYPE_CHECKING:
    from compclip.data.prepared_dataset import PreparedDataset

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}  # of its pictures' values
SHARED = 5  # partners that a caption is given by a common noun (CLIC B.4)
TRIES = 4 * SHARED
Caption = tuple[int, int]  # a sample and which of its captions


def join_pictures(
    a: Image.Image, b: Image.Image, side: int, rng: np.random.Generator, resize: Resize = resize_by_pillow
) -> Image.Image:
    """Return a square of `side` pixels: wide pictures stacked, tall ones side by side, in random order, resized."""
    first, second = (a, b) if rng.random() < 0.5 else (b, a)
    half = side // 2
    square = Image.new("RGB", (side, side))
    wide = first.width >= first.height
    square.paste(resize(first, (side, half) if wide else (half, side)), (0, 0))
    second_size = (side, side - half) if wide else (side - half, side)
    square.paste(resize(second, second_size), (0, half) if wide else (half, 0))
    return square


class Partners:
    """The captions that may be a composite's second half, with pictures of the first one's orientation."""

    def __init__(self, data: PreparedDataset, seed: int) -> None:
        self.data, self.seed = data, seed

    @cached_property
    def _by_orientation(self) -> tuple[np.ndarray, np.ndarray]:
        """The samples with tall pictures and those with wide ones, ascending, computed at the first access."""
        numbers = np.arange(len(self.data), dtype=np.uint32)
        return numbers[~self.data.wide], numbers[self.data.wide]

    def draw(self, caption: Caption, kind: str, rng: np.random.Generator) -> tuple[Caption, bool]:
        """Draw a partner of a caption; return it and whether it is of the kind asked for: random or common_noun.

        It is any other one where no other first sentence has a noun of this one's.
        """
        if kind == "common_noun" and (partners := self.find_by_noun(caption)):
            return partners[rng.integers(len(partners))], True
        index = self.draw_any(caption[0], rng)
        return (index, int(rng.integers(self.data.captions(index)))), kind == "random"

    def draw_any(self, index: int, rng: np.random.Generator) -> int:
        """Draw another sample of the same orientation; the sample itself only where there is no other."""
        same_orientation = self._by_orientation[int(self.data.wide[index])]
        if len(same_orientation) == 1:
            rng.integers(1)  # as many draws wherever a sample stands
            return index
        position = int(rng.integers(len(same_orientation) - 1))
        return int(same_orientation[position + (position >= np.searchsorted(same_orientation, index))])

    def find_by_noun(self, caption: Caption) -> list[Caption]:
        """Return up to `SHARED` captions of other samples, the same in every epoch, each by a random noun (CLIC B.4).

        Both first sentences have the noun as it is written, so that the negative can leave it out.
        """
        rng, wide = np.random.default_rng((self.seed, *caption, SHARED)), bool(self.data.wide[caption[0]])
        pools = [self.data.sharing(noun, wide) for noun in self.data.nouns(*caption)]
        pools = [pool for pool in pools if len(pool) > 1]
        partners: dict[int, Caption] = {}
        for _ in range(TRIES if pools else 0):
            pool = pools[int(rng.integers(len(pools)))]
            partner = self.data.locate_caption(int(pool[rng.integers(len(pool))]))
            if partner[0] != caption[0] and len(partners) < SHARED:
                partners.setdefault(partner[0], partner)
        return list(partners.values())

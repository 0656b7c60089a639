"""CLIC's composites: two pictures of one orientation in one square, and partners by a noun (CLIC Sec. 3.1, B.4).

H, W pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from compclip.data.prepared_dataset import PreparedDataset

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}  # of its pictures' values
SHARED = 5  # partners that a caption is given by a common noun (CLIC B.4)
TRIES = 4 * SHARED
Caption = tuple[int, int]  # a sample and which of its captions


def orientation(width: int, height: int) -> str:
    """Return `wide` where width >= height, else `tall`."""
    return "wide" if width >= height else "tall"


def join_pictures(a: Image.Image, b: Image.Image, side: int, rng: np.random.Generator) -> Image.Image:
    """Return a square of `side` pixels: wide pictures stacked, tall ones side by side, in random order, resized."""
    first, second = (a, b) if rng.random() < 0.5 else (b, a)
    half = side // 2
    square = Image.new("RGB", (side, side))
    wide = orientation(*first.size) == "wide"
    square.paste(first.resize((side, half) if wide else (half, side), Image.Resampling.BICUBIC), (0, 0))
    second_size = (side, side - half) if wide else (side - half, side)
    square.paste(second.resize(second_size, Image.Resampling.BICUBIC), (0, half) if wide else (half, 0))
    return square


class CommonNounPartners:
    """Partners whose first sentence shares a noun with that of the sample (CLIC B.4).

    The noun is shared as it is written, so that the negative can leave it out; the partner's picture is of the same
    orientation.
    """

    def __init__(self, data: PreparedDataset, seed: int) -> None:
        self.data, self.seed = data, seed

    def draw(self, caption: Caption, rng: np.random.Generator) -> Caption | None:
        """Return one of the caption's partners; None where it has none."""
        partners = self.partners(caption)
        return partners[rng.integers(len(partners))] if partners else None

    def partners(self, caption: Caption) -> list[Caption]:
        """Return up to `SHARED` captions of other samples, the same in every epoch, each by a random noun."""
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

"""Pictures as a step sees them: scaled to the model's square, two in one (CLIC Sec. 3.1, B.4), and regions of one.

H, W pixels. Boxes are left, upper, right, lower in shares of a picture. Wide pictures are at least as wide as high, the
others are tall.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from torch.nn import functional as F
from torchvision.transforms.functional import center_crop

from compclip.base.errors import UserError
from compclip.data.sample import Region
from compclip.interface.views import Regions
from compclip.model.clip_model import side_lengths

if TYPE_CHECKING:
    from compclip.data.prepared_dataset import PreparedDataset


# Two ways to scale pictures: Pillow's, which the papers' programs take, and torch's, several times as fast.
#
# Both weigh the pixels by the same antialiased cubic kernel, in two passes. torch rounds the weights otherwise, and
# takes rows before columns where Pillow takes what is cheaper. So values of uint8 differ by one grey level: 0.4 %
# of them in COCO's photographs, a fifth in narrow high pictures. H, W pixels.

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
    mode = preprocess["resize_mode"]
    kernel = preprocess["interpolation"]
    if kernel not in ("bicubic", "bilinear") or not (mode == "squash" or (mode == "shortest" and height == width)):
        raise UserError(
            f"train.resize=torch: the backbone fits pictures of {width} x {height} by {mode!r} and {kernel!r}; "
            "must be a square by 'shortest', or 'squash', and bicubic or bilinear: set train.resize=pil"
        )

    def fit(picture: Image.Image) -> Image.Image:
        if picture.size == (width, height):
            return picture
        size = (width, height)
        if mode == "shortest":  # the longer side is rounded down, as torchvision does
            shorter = min(picture.size)
            size = (int(width * picture.width / shorter), int(width * picture.height / shorter))
        return center_crop(resize_by_torch(picture, size, kernel), [height, width])

    return fit


def find_shown_part(size: Size, mode: str) -> tuple[float, float, float, float]:
    """Return which part of a picture its evaluation transform shows, as left, upper, right, lower in shares of it.

    `mode` is the transform's, in open_clip's format; what "longest" adds around the picture lies beyond 0 and 1.
    """
    if mode == "squash":
        return 0.0, 0.0, 1.0, 1.0
    extent = min(size) if mode == "shortest" else max(size)
    across = extent / size[0] / 2
    down = extent / size[1] / 2
    return 0.5 - across, 0.5 - down, 0.5 + across, 0.5 + down


# CLIC's composites: two pictures of one orientation in one square, and the partners of a caption (CLIC Sec. 3.1, B.4).
#
# H, W pixels. Wide pictures are at least as wide as high, the others are tall.

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


@dataclass
class Partners:
    """The captions that may be a composite's second half, with pictures of the first one's orientation."""

    data: PreparedDataset
    seed: int

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
        rng = np.random.default_rng((self.seed, *caption, SHARED))
        wide = bool(self.data.wide[caption[0]])
        pools = []
        for noun in self.data.nouns(*caption):
            pool = self.data.sharing(noun, wide)
            if len(pool) > 1:
                pools.append(pool)
        partners: dict[int, Caption] = {}
        for _ in range(TRIES if pools else 0):
            pool = pools[int(rng.integers(len(pools)))]
            partner = self.data.locate_caption(int(pool[rng.integers(len(pool))]))
            if partner[0] != caption[0] and len(partners) < SHARED:
                partners.setdefault(partner[0], partner)
        return list(partners.values())


# Regions as a step sees them: which of a picture's are drawn, where they are in what is shown, and their texts.
#
# Boxes are left, upper, right, lower in shares of a picture. H, W pixels.

LEAST_SEEN = 0.5  # share of a region's area that is in the picture as it is shown; others have left it
Part = tuple[float, float, float, float]  # of a picture, as a box
WHOLE: Part = (0.0, 0.0, 1.0, 1.0)
DrawnRegion = tuple[Part, tuple[str | None, ...], Part]  # box in what is shown, texts, box in the whole picture


def draw_regions(
    regions: Sequence[Region], part: Part, asked: Regions, rng: np.random.Generator
) -> tuple[list[DrawnRegion], int]:
    """Draw regions of those that a part of the picture shows, at most as many as are asked for; count the others."""
    shown_regions = []
    for region in regions:
        box = place_box(region.box, part)
        if box:
            shown_regions.append((region, box))
    drawn: list[DrawnRegion] = []
    for number in rng.permutation(len(shown_regions))[: asked.count]:
        region, box = shown_regions[number]
        drawn.append((box, draw_texts(region, asked.negatives, rng), region.box))
    return drawn, len(regions) - len(shown_regions)


def place_box(box: Part, part: Part) -> Part | None:
    """Return a box of the picture in shares of a part of it, cut at its edges; None where it has left the part."""
    x0, y0, x1, y1 = part
    left = _share_between(box[0], x0, x1)
    right = _share_between(box[2], x0, x1)
    upper = _share_between(box[1], y0, y1)
    lower = _share_between(box[3], y0, y1)
    seen = (right - left) * (x1 - x0) * (lower - upper) * (y1 - y0)
    return (left, upper, right, lower) if seen >= LEAST_SEEN * (box[2] - box[0]) * (box[3] - box[1]) else None


def _share_between(x: float, start: float, end: float) -> float:
    return min(max((x - start) / (end - start), 0.0), 1.0)


def draw_texts(region: Region, negatives: int, rng: np.random.Generator) -> tuple[str | None, ...]:
    """Draw a caption and, with `negatives`, return the first caption behind it and so many of its false texts."""
    caption = region.captions[rng.integers(len(region.captions))]
    if not negatives:
        return (caption,)
    order = rng.permutation(len(region.negatives))[:negatives]
    false_texts = [region.negatives[i] for i in order]
    return (caption, region.captions[0], *false_texts, *[None] * (negatives - len(false_texts)))


def cut_region(picture: Image.Image, box: Part, times: float, side: int, resize: Resize) -> Image.Image | None:
    """Return a square of what a box with sides `times` as long has of the picture; None for `times` = 0.

    Edges stand at the nearest whole pixel, as FineCLIP's program cuts them (training/data.py:139).
    """
    if not times:
        return None
    edges = []
    for start, end, size in zip(box[:2], box[2:], picture.size, strict=True):
        centre = (start * size + end * size) / 2
        half = (end * size - start * size) * times / 2
        low = min(round(max(centre - half, 0.0)), size - 1)
        edges.append((low, max(low + 1, round(min(centre + half, size)))))
    (left, right), (upper, lower) = edges
    return resize(picture.crop((left, upper, right, lower)), (side, side))

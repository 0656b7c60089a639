"""Regions as a step sees them: which of a picture's are drawn, where they are in what is shown, and their texts.

Boxes are left, upper, right, lower in shares of a picture. H, W pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from compclip.data.sample import Region
from compclip.interface.views import Regions
from compclip.train.picture_resizing import Resize

LEAST_SEEN = 0.5  # share of a region's area that is in the picture as it is shown; others have left it
Part = tuple[float, float, float, float]  # of a picture, as a box
WHOLE: Part = (0.0, 0.0, 1.0, 1.0)
DrawnRegion = tuple[Part, tuple[str | None, ...], Part]  # box in what is shown, texts, box in the whole picture


def draw_regions(
    regions: Sequence[Region], part: Part, asked: Regions, rng: np.random.Generator
) -> tuple[list[DrawnRegion], int]:
    """Draw regions of those that a part of the picture shows, at most as many as are asked for; count the others."""
    placed = [(region, box) for region in regions if (box := place_box(region.box, part))]
    chosen_regions = [placed[i] for i in rng.permutation(len(placed))[: asked.count]]
    texts = [draw_texts(region, asked.negatives, rng) for region, _ in chosen_regions]
    with_texts = [(box, text, region.box) for (region, box), text in zip(chosen_regions, texts, strict=True)]
    return with_texts, len(regions) - len(placed)


def place_box(box: Part, part: Part) -> Part | None:
    """Return a box of the picture in shares of a part of it, cut at its edges; None where it has left the part."""
    x0, y0, x1, y1 = part
    left, right = (min(max((x - x0) / (x1 - x0), 0.0), 1.0) for x in (box[0], box[2]))
    upper, lower = (min(max((y - y0) / (y1 - y0), 0.0), 1.0) for y in (box[1], box[3]))
    seen = (right - left) * (x1 - x0) * (lower - upper) * (y1 - y0)
    return (left, upper, right, lower) if seen >= LEAST_SEEN * (box[2] - box[0]) * (box[3] - box[1]) else None


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
        centre, half = (start * size + end * size) / 2, (end * size - start * size) * times / 2
        low = min(round(max(centre - half, 0.0)), size - 1)
        edges.append((low, max(low + 1, round(min(centre + half, size)))))
    (left, right), (upper, lower) = edges
    return resize(picture.crop((left, upper, right, lower)), (side, side))

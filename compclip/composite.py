"""CLIC's composites: two pictures of one orientation in one square, and the captions of both (CLIC Sec. 3.1).

H, W pixels.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from compclip.text import swap
from compclip.text.annotation import Annotation


def orientation(width: int, height: int) -> str:
    """`wide` where width >= height, else `tall`."""
    return "wide" if width >= height else "tall"


def pictures(a: Image.Image, b: Image.Image, side: int, rng: np.random.Generator) -> Image.Image:
    """One square of `side` pixels: wide pictures stacked, tall ones side by side, in random order, squashed to fit."""
    first, second = (a, b) if rng.random() < 0.5 else (b, a)
    half = side // 2
    square = Image.new("RGB", (side, side))
    wide = orientation(*first.size) == "wide"
    square.paste(first.resize((side, half) if wide else (half, side), Image.Resampling.BICUBIC), (0, 0))
    rest = (side, side - half) if wide else (side - half, side)
    square.paste(second.resize(rest, Image.Resampling.BICUBIC), (0, half) if wide else (half, 0))
    return square


def captions(a: tuple[Annotation, ...], b: tuple[Annotation, ...], count: int,
             rng: np.random.Generator) -> tuple[list[str], str | None]:
    """p1 … p_count and the negative of two captions given as their sentences.

    p1 joins the first sentences, p2 is p1 in the other order, p3 and on join further sentences, drawn without
    repetition as long as there are any. The negative exchanges a word of the two first sentences.
    """
    first_a, first_b = a[0].text, b[0].text
    positives = [swap.join(first_a, first_b), swap.join(first_b, first_a)][:count]
    more_a, more_b = (_further(s, count - 2, rng) for s in (a, b))
    for x, y in zip(more_a, more_b, strict=True):
        positives.append(swap.join(x, y) if rng.random() < 0.5 else swap.join(y, x))
    return positives, swap.clic(a[0], b[0], rng)


def own_captions(a: tuple[Annotation, ...], count: int, rng: np.random.Generator) -> tuple[list[str], str | None]:
    """p1 … p_count and the negative of a single picture (CLIC Table 10, B1-B4): p2 = p1, then further sentences."""
    positives = [a[0].text] * min(count, 2) + _further(a, count - 2, rng)
    return positives, swap.single(a[0], rng)


def _further(sentences: tuple[Annotation, ...], count: int, rng: np.random.Generator) -> list[str]:
    """`count` sentences other than the first; a caption without others gives its first one."""
    pool = [s.text for s in sentences[1:]] or [sentences[0].text]
    drawn: list[str] = []
    while len(drawn) < count:
        drawn += [pool[i] for i in rng.permutation(len(pool))]
    return drawn[: max(count, 0)]

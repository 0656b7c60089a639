"""CLIC's composites: two pictures of one orientation in one square, and the captions of both (CLIC Sec. 3.1).

H, W pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from compclip.text import swap
from compclip.text.annotation import Annotation

if TYPE_CHECKING:
    from compclip.train.train_set import Numbered, TrainSet

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}  # of its pictures' values
SHARED = 5  # partners that a caption is given by a common noun (CLIC B.4)
TRIES = 4 * SHARED


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


def captions(
    a: tuple[Annotation, ...],
    b: tuple[Annotation, ...],
    count: int,
    rng: np.random.Generator,
    common_noun: bool = False,
    ends: str = swap.KEPT,
) -> tuple[list[str], str | None]:
    """p1 … p_count and the negative of two captions given as their sentences.

    p1 joins the first sentences, p2 is p1 in the other order, p3 and on join further sentences, drawn without
    repetition as long as there are any. The negative exchanges a word of the two first sentences; not the one that made
    them partners (`common_noun`), unless a sentence has no other. `ends`: how sentences end (`swap.JOINS`).
    """
    first_a, first_b, join = a[0].text, b[0].text, swap.JOINS[ends]
    positives = [join(first_a, first_b), join(first_b, first_a)][:count]
    more_a, more_b = (_further(s, count - 2, rng) for s in (a, b))
    for x, y in zip(more_a, more_b, strict=True):
        positives.append(join(x, y) if rng.random() < 0.5 else join(y, x))
    return positives, swap.clic(a[0], b[0], rng, keep_common=common_noun, ends=ends)


def own_captions(
    a: tuple[Annotation, ...], count: int, rng: np.random.Generator, ends: str = swap.KEPT
) -> tuple[list[str], str | None]:
    """p1 … p_count and the negative of a single picture (CLIC Table 10, B1-B4): p2 = p1, then further sentences."""
    positives = [a[0].text] * min(count, 2) + _further(a, count - 2, rng)
    negative = swap.single(a[0], rng)
    if ends == swap.CLIC:
        return [swap.endless(text) for text in positives], negative and swap.endless(negative)
    return positives, negative


def _further(sentences: tuple[Annotation, ...], count: int, rng: np.random.Generator) -> list[str]:
    """`count` sentences other than the first; a caption without others gives its first one."""
    pool = [s.text for s in sentences[1:]] or [sentences[0].text]
    drawn: list[str] = []
    while len(drawn) < count:
        drawn += [pool[i] for i in rng.permutation(len(pool))]
    return drawn[: max(count, 0)]


class CommonNouns:
    """Partners whose first sentence shares a noun with that of the sample (CLIC B.4).

    The noun is shared as it is written, so that the negative can leave it out; the partner's picture is of the same
    orientation.
    """

    def __init__(self, data: TrainSet, seed: int) -> None:
        self.data, self.seed = data, seed

    def draw(self, place: Numbered, rng: np.random.Generator) -> Numbered | None:
        """One of the caption's own partners; None where it has none."""
        own = self.partners(place)
        return own[rng.integers(len(own))] if own else None

    def partners(self, place: Numbered) -> list[Numbered]:
        """Up to `SHARED` captions of other samples, the same in every epoch: each by a random noun of this caption."""
        rng, wide = np.random.default_rng((self.seed, *place, SHARED)), bool(self.data.wide[place[0]])
        pools = [self.data.sharing(noun, wide) for noun in self.data.nouns(*place)]
        pools = [pool for pool in pools if len(pool) > 1]
        found: dict[int, Numbered] = {}
        for _ in range(TRIES if pools else 0):
            pool = pools[rng.integers(len(pools))]
            other = self.data.place(int(pool[rng.integers(len(pool))]))
            if other[0] != place[0] and len(found) < SHARED:
                found.setdefault(other[0], other)
        return list(found.values())

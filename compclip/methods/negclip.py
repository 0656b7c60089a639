"""NegCLIP: negatives that exchange words join the contrast of the batch (Yuksekgonul et al., ICLR 2023; CLIC Eq. 2).

B images, K negatives, D dim. `hard_images: 1` is as published and released: each row adds one of the three pictures
nearest to its own (pretrained image tower, cosine), drawn anew in each epoch, with a caption and a negative of its own.
These are ordinary rows: 2B images and 4B texts, of which the 2B negatives are wrong for every image and never queries.
A picture that occurs twice is a wrong answer to itself, as in the release. FSC-CLIP and CLIC train it with the default,
0.

Departures: neighbours are found among all pictures, not only among those whose caption has a negative; a caption
without a negative leaves its place in the softmax empty (released: such rows are removed from the file).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.interface.views import Views
from compclip.methods import _check
from compclip.text import swap as text_swap
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True
RULES = text_swap.RULES


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    # "negclip": six kinds of spans, as released except words joined by "and"; "negclip_released": also those; "clic":
    # words of one category (CLIC B.2, D.1)
    swap: str = "negclip"
    hard_images: int = part(0, off=0)  # nearest pictures that join the batch with each picture; published: 1
    nearest: ClassVar[int] = 3  # they are drawn from so many nearest ones

    def __post_init__(self) -> None:
        _check.one_of(self, swap=RULES)
        is_beyond = not 0 <= self.hard_images <= self.nearest
        _check.refuse(is_beyond, f"hard_images={self.hard_images}: must be from 0 to {self.nearest}")


def views(cfg: Config, step: int) -> Views:
    """Ask for one negative per caption, and for hard images."""
    rules = (RULES[cfg.swap],)
    return Views(negatives=rules, caption=cfg.caption, neighbours=cfg.hard_images, nearest=cfg.nearest)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return CLIP's loss with the batch's negatives among the texts, a scalar; hard images are rows of the batch."""
    return {"negclip": losses.negclip(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)}  # CLIC Eq. 2

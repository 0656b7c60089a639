"""NegCLIP: negatives that exchange words join the contrast of the batch (Yuksekgonul et al., ICLR 2023; CLIC Eq. 2).

B images, K negatives, D dim. Departures: no negative images are added to the batch (as in the re-implementations of
FSC-CLIP and CLIC); a caption without a negative gives none, and its place in the softmax stays empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.methods import _check
from compclip.text import swap as text_swap
from compclip.train import losses
from compclip.train.batch import Views

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.train.features import Features

TRAINS = True
RULES = {"negclip": text_swap.negclip, "clic": text_swap.single}


@dataclass(frozen=True)
class Config:
    swap: str = "negclip"  # "negclip": six kinds of spans; "clic": words of one category (CLIC B.2, D.1)
    caption: str = "full"  # the whole caption, or its "first" sentence

    def __post_init__(self) -> None:
        _check.one_of(self, "swap", RULES)
        _check.one_of(self, "caption", ("full", "first"))


def views(cfg: Config, step: int) -> Views:
    """One negative a caption."""
    return Views(negatives=(RULES[cfg.swap],), caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """CLIP with the batch's negatives among the texts, a scalar."""
    return {"negclip": losses.negclip(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)}  # CLIC Eq. 2

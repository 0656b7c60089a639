"""CLIP with a margin: each caption's cosine is to exceed that of its negative by so much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.base.errors import UserError
from compclip.interface.views import Views
from compclip.text import swap
from compclip.train import losses
from margin_clip.hinge import hinge

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config:
    """How far, and how much it counts beside the CLIP loss."""

    margin: float = 0.1
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= 2:
            raise UserError(f"margin={self.margin}: must be >= 0 and <= 2, it is between cosines")


def views(cfg: Config, step: int) -> Views:
    """One negative a caption: its first sentence, with two words exchanged."""
    return Views(negatives=(swap.negclip,), caption="first")


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """The CLIP loss and the hinge, each a scalar, weights applied."""
    return {
        "clip": losses.clip(f.image_BD, f.text_BD, f.scale),
        "margin": cfg.weight * hinge(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, cfg.margin),
    }

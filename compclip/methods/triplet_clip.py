"""TripletCLIP: synthetic hard negative captions with pictures of their own (Patel et al., NeurIPS 2024).

B images v with captions t, hard negative captions t' and images v' made of them, D dim. Two NegCLIP losses, of which
each has the other's captions as negatives; they are added (released code; the paper, arXiv:2411.02545, has them take
turns). A caption is never told from a hard negative image. Departures: a sample without t' or v' is left out of the
second loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.base.ablation_parts import part
from compclip.interface.views import Views
from compclip.methods import _check
from compclip.text import stored_texts
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config:
    images: bool = part(True, off=False)  # false: the captions alone, NegCLIP++ in the paper's tables
    caption: str = "full"  # the whole caption, or its "first" sentence

    def __post_init__(self) -> None:
        _check.one_of(self, caption=("full", "first"))


def views(cfg: Config, step: int) -> Views:
    """The stored negative caption and its picture (data.<name>.texts.negative, data.<name>.negative_images)."""
    return Views(negatives=(stored_texts.first_negative,), negative_images=int(cfg.images), caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """NC(v, t; t′) and NC(v′, t′; t), scalars."""
    terms = {"negclip": losses.negclip(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)}
    if cfg.images:
        terms["negative"] = negative(f)
    return terms


def negative(f: Features) -> Tensor:
    """The negative images with their captions, told from all captions of the batch: the second half."""
    own_B = f.negative_image_mask_BJ[:, 0] & f.mask_BK[:, 0]
    image_ND, text_ND = f.negative_image_BJD[own_B, 0], f.negative_BKD[own_B, 0]
    if not len(image_ND):
        return 0 * (f.negative_image_BJD.sum() + f.negative_BKD.sum())
    every_B1 = own_B.new_ones(len(own_B), 1)
    return losses.negclip(image_ND, text_ND, f.text_BD[:, None], every_B1, f.scale)

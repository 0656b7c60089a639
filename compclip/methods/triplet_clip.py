"""TripletCLIP: synthetic hard negative captions with pictures of their own (Patel et al., NeurIPS 2024).

B images v with captions t, hard negative captions t' and images v' made from them, D dim. There are two NegCLIP losses,
each with the other's captions as negatives; their sum is trained (released code; in the paper, arXiv:2411.02545, they
alternate). A caption is never contrasted with a hard negative image.

Departures: a sample without t' or v' is left out of the second loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import torch
from compclip.interface.views import Views
from compclip.methods import _check
from compclip.text import stored_texts
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    images: bool = part(True, off=False)  # false: only captions, NegCLIP++ in the paper's tables


def views(cfg: Config, step: int) -> Views:
    """Ask for the stored negative caption and picture (data.<name>.texts.negative, data.<name>.negative_images)."""
    return Views(negatives=(stored_texts.first_negative,), negative_images=int(cfg.images), caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return NC(v, t; t′) and NC(v′, t′; t) as scalars."""
    terms = {"negclip": losses.negclip(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)}
    if cfg.images:
        terms["negative"] = negative(f)
    return terms


def negative(f: Features) -> Tensor:
    """Contrast negative images with their captions and all captions of the batch: the second of the two losses."""
    pictures = f.named["negative_images"]
    whole_B = pictures.mask[:, 0] & f.mask_BK[:, 0]
    image_BD = pictures.values[:, 0]
    text_BD = f.negative_BKD[:, 0]
    key_ND = torch.cat([text_BD, f.text_BD])
    valid_N = torch.cat([whole_B, torch.ones_like(whole_B)])
    to_text = losses.matching_of(image_BD, key_ND, f.scale, whole_B, valid_N)
    to_image = losses.matching_of(text_BD, image_BD, f.scale, whole_B, whole_B)
    return (to_text + to_image) / 2

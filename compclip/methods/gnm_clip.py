"""GNM-CLIP: generative negative mining (Sahin et al., WACV 2024, arXiv:2311.03964).

B images with captions, J variations of each, edited at one object, with captions of their own, D dim. The loss is plain
CLIP over all of them; the new idea is that variations of one picture share a batch. For each object, the authors' batch
has two variations, drawn by score, and eight plain pairs: `draw: scores` and `original: left_out`, for data with an
entry for each object and for each plain pair (experiments/grids/gnm_clip_released.yaml). Their weight decay is Adam's
coupled one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    variations: int = 2  # variations of a picture that share a batch with it
    draw: str = "first"  # use the first stored ones; "scores": draw by their scores, as released
    original: str = "beside"  # "left_out": a picture with variations is not shown itself, as released

    def __post_init__(self) -> None:
        _check.at_least(self, 1, "variations")
        _check.one_of(self, draw=("first", "scores"), original=("beside", "left_out"))


def views(cfg: Config, step: int) -> Views:
    """Ask for variations stored with a picture (data.<name>.negative_images), with their captions."""
    if cfg.draw == "scores":
        groups = (stored_texts.variations(cfg.variations),)
        return Views(groups=groups, negative_images=cfg.variations, caption=cfg.caption)
    captions = tuple(stored_texts.nth(j) for j in range(cfg.variations))
    return Views(negatives=captions, negative_images=cfg.variations, caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return CLIP's loss over pictures and variations, a scalar; variations without picture or caption are left out."""
    pictures = f.named["negative_images"]
    whole_BJ = pictures.mask & f.mask_BK
    shown_B = torch.ones_like(whole_BJ[:, 0]) if cfg.original == "beside" else ~whole_BJ.any(dim=1)
    valid_N = torch.cat([shown_B, whole_BJ.flatten()])
    image_ND = torch.cat([f.image_BD, pictures.values.flatten(0, 1)])
    text_ND = torch.cat([f.text_BD, f.negative_BKD.flatten(0, 1)])
    to_text = losses.matching_of(image_ND, text_ND, f.scale, valid_N, valid_N)
    to_image = losses.matching_of(text_ND, image_ND, f.scale, valid_N, valid_N)
    return {"clip": (to_text + to_image) / 2}

"""FineCLIP: self-distilled region-based CLIP (Jing et al., NeurIPS 2024), Sec. 3; program Timsty1/FineCLIP.

B images, R regions of each, C texts of a region, D dim. A region's vector is pooled from the patches of its picture. It
is contrasted with the batch's regions through its caption. It should also equal the vector of the region shown as a
picture. The program freezes the text tower (`train.trainable: image`).

Departures: pictures without regions, and missing regions, are left out of both terms (released: on one process, padding
up to the whole batch stays in the contrast with logit 0, and a quarter of the picture replaces a missing region);
regions are contrasted over the whole batch, on every process alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.interface.views import Regions, Views
from compclip.methods import _check
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features
    from compclip.model.clip_model import ClipModel

TRAINS = True


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    lambda_regions: float = part(1.0, off=0.0)  # regions and captions; training/train.py sums all terms
    lambda_distill: float = part(1.0, off=0.0)  # regions and crops
    regions: int = 20  # R; scripts/train_vitb16.sh: --max-boxes 20 (5 for L/14)
    crop_times: ClassVar[float] = 1.5  # side of a crop over side of its region; training/data.py:135
    detach_crops: ClassVar[bool] = False  # gradients also reach crops; training/clipself.py
    squash: ClassVar[bool] = True  # whole pictures, scaled to a square; open_clip/transform.py: det_image_transform

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "lambda_regions", "lambda_distill")
        _check.at_least(self, 1, "regions")


def adapt(cfg: Config, model: ClipModel, seed: int) -> None:
    """Prepare pictures for scoring as in training, like the release (open_clip/factory.py:312)."""
    from compclip.model import clip_model

    clip_model.squash_pictures(model)


def views(cfg: Config, step: int) -> Views:
    """Ask for the caption, regions with a caption each, and crops if they are distilled."""
    crops = cfg.crop_times if cfg.lambda_distill else 0.0
    regions = Regions(cfg.regions, crops=crops, unit_patches=True)  # open_clip/eva_clip/eva_vit_model.py:620
    is_asked = cfg.lambda_regions or cfg.lambda_distill
    return Views(caption=cfg.caption, squash=cfg.squash, regions=regions if is_asked else None)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the three terms as weighted scalars, without those of weight 0."""
    terms = {"clip": losses.clip(f.image_BD, f.text_BD, f.scale)}
    if cfg.lambda_regions:
        terms["regions"] = cfg.lambda_regions * contrast_regions(f)
    if cfg.lambda_distill:
        terms["distill"] = cfg.lambda_distill * distill_crops(f)
    return terms


def contrast_regions(f: Features) -> Tensor:
    """Return CLIP's contrast of the batch's regions and their captions."""
    regions = f.named["regions"]
    text_BRCD = f.named["region_texts"].values
    region_MD = regions.values.flatten(0, 1)
    there_M = regions.mask.flatten()
    return losses.clip_of(region_MD, text_BRCD[:, :, 0].flatten(0, 1), f.scale, there_M)


def distill_crops(f: Features) -> Tensor:
    """Return 1 − cosine of each region's vector and its crop's, mean over regions."""
    regions = f.named["regions"]
    crop_BRD = f.named["region_crops"].values
    return losses.masked_mean(1 - losses.cosines(regions.values, crop_BRD), regions.mask)

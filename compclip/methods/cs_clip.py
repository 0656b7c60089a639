"""CS-CLIP, component-supervised (Kargi et al., NeurIPS 2026, arXiv:2602.23906), Sec. 4; not that of scene graphs.

B images, U units of each caption, K negatives, D dim. A unit is an entity or a relation of the caption; its foil is the
same unit with one detail changed. The image finds its caption among the batch's captions and negatives. It also finds
its unit among the batch's units at the same place and its own foil. Units and foils are made by rules (`text.units`;
theirs by a language model).

Departures: a caption without a negative stays in the contrast, and only valid negatives take part (released: its row is
left out, and all negatives stay, also empty ones); a missing unit is left out (released: another unit of the caption is
repeated).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import torch
from compclip.interface.views import Views
from compclip.methods import _check
from compclip.text import units as text_units
from compclip.text.text_groups import pair
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True
UNIT = pair("units.draw", text_units.draw)


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    lambda_units: float = part(0.5, off=0.0)  # configs/loss/multi_caption.yaml: lambda_entities
    units: ClassVar[int] = 2  # units per caption; configs/dataset/coco_neg.yaml: num_entity_captions
    negatives: bool = part(True, off=False)  # negatives of the whole caption; use_negatives_full
    swap: ClassVar[str] = "swap_or_entity"  # their rule: exchange two parts, else replace an entity

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "lambda_units")


def views(cfg: Config, step: int) -> Views:
    """Ask for a negative of the caption, and for units with foils if their term is on."""
    groups = (UNIT,) * (cfg.units if cfg.lambda_units else 0)
    return Views(negatives=(text_units.caption_foil,) * cfg.negatives, groups=groups, caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the contrasts of captions and of units as weighted scalars, without those of weight 0."""
    whole = slice(int(cfg.negatives))
    negatives = f.negative_BKD[:, whole], f.mask_BK[:, whole]
    terms = {"caption": losses.negclip(f.image_BD, f.text_BD, *negatives, f.scale)}
    if cfg.lambda_units:
        terms["units"] = cfg.lambda_units * contrast_units(f, cfg)
    return terms


def contrast_units(f: Features, cfg: Config) -> Tensor:
    """Contrast images with the batch's units and their own foil, and units with images; return the mean over units."""
    first = int(cfg.negatives)
    places = []
    for u in range(cfg.units):
        there_B = f.positive_mask_BP[:, u] & f.mask_BK[:, first + u]
        unit_BD = f.positive_BPD[:, u]
        foil_BD = f.negative_BKD[:, first + u]
        to_unit = losses.matching_with_own(f.image_BD, unit_BD, foil_BD, f.scale, there_B)
        places.append((to_unit + losses.matching_of(unit_BD, f.image_BD, f.scale, there_B, there_B)) / 2)
    return torch.stack(places).mean()

"""CoN-CLIP: learning the power of "no" (Singh et al., WACV 2025, arXiv:2403.20312).

B images v with captions t, negated captions n, distractor images v' for which the negated caption is true, D dim.
Without distractors this is NegCLIP with negations. Released: the image tower is frozen, the order of the data never
changes, and each of the three terms has weight 1/3 even if a batch lacks negations or distractors.

Departures: missing texts and images are left out of the softmax, and their rows out of the mean; the order is drawn
anew in each epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import torch
from compclip.interface.views import Views
from compclip.methods import _check
from compclip.text import negate, stored_texts
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True
RULES = {"stored": stored_texts.first_negative, "rule": negate.conclip, "rule_released": negate.conclip_released}


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    distractors: bool = part(True, off=False)  # pictures of data.<name>.negative_images
    negations: str = (
        "stored"  # data.<name>.texts.negative (CC-Neg); "rule": ours; "rule_released": "no" before any thing
    )

    def __post_init__(self) -> None:
        _check.one_of(self, negations=RULES)


def views(cfg: Config, step: int) -> Views:
    """Ask for the negated caption, and for the distractor if it is on."""
    return Views(negatives=(RULES[cfg.negations],), negative_images=int(cfg.distractors), caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the three terms as scalars, each with weight 1/3; without distractors, NegCLIP's loss."""
    if not cfg.distractors:
        return {"negclip": losses.negclip(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)}
    text_BD = f.text_BD
    negation_BD = f.negative_BKD[:, 0]
    negated_B = f.mask_BK[:, 0]
    distractors = f.named["negative_images"]
    distractor_BD = distractors.values[:, 0]
    there_B = distractors.mask[:, 0]
    every_B = torch.ones_like(negated_B)
    to_text = losses.matching(f.image_BD, torch.cat([text_BD, negation_BD]), f.scale, torch.cat([every_B, negated_B]))
    to_image = losses.matching(text_BD, torch.cat([f.image_BD, distractor_BD]), f.scale, torch.cat([every_B, there_B]))
    to_negation = losses.matching_of(
        distractor_BD, torch.cat([negation_BD, text_BD]), f.scale, there_B & negated_B, torch.cat([negated_B, every_B])
    )
    return {"to_text": to_text / 3, "to_image": to_image / 3, "to_negation": to_negation / 3}

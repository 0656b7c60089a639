"""CLoVe: encoding compositional language in vision-language models (Castro et al., arXiv:2402.15021), Sec. 3.

B images, K negatives, D dim. Three steps: synthetic captions (LAION-COCO's), NegCLIP's loss with its own rule of
replacement, and weights averaged with the pretrained ones: `train.average_alpha: 0.6` (Eq. 1). Its models take 64
tokens (`train.context_length: 64`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.methods import _check
from compclip.text import clove, replace
from compclip.train import losses
from compclip.train.batch import Views

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.train.features import Features

TRAINS = True
RULES = {"clove": clove.replace, "wordnet": replace.wordnet}


@dataclass(frozen=True)
class Config:
    replace: str = "clove"  # which rule of replacement; "wordnet": ours
    caption: str = "full"  # the whole caption, or its "first" sentence

    def __post_init__(self) -> None:
        _check.one_of(self, "replace", RULES)
        _check.one_of(self, "caption", ("full", "first"))


def views(cfg: Config, step: int) -> Views:
    """One negative a caption."""
    return Views(negatives=(RULES[cfg.replace],), caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """CLIP with the batch's negatives among the texts, a scalar."""
    return {"negclip": losses.negclip(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)}

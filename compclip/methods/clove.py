"""CLoVe: encoding compositional language in vision-language models (Castro et al., arXiv:2402.15021), Sec. 3.

B images, K negatives, D dim. It has three ingredients: synthetic captions (LAION-COCO's), NegCLIP's loss with its own
replacement rule, and weights averaged with the pretrained ones: `train.average_alpha: 0.6` (Eq. 1). Its models read 64
tokens (`train.context_length: 64`).

Departures: a caption may have no negative (released: on several GPUs it is a vector of zeros, with logit 0); "!" is a
word (released: its tokenizer pads with "!", and reads each as padding).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.interface.views import Views
from compclip.methods import _check
from compclip.text import replace
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    replace: ClassVar[str] = "clove"  # the rule of its negatives; needs data with `relatives: true`


def needs(cfg: Config) -> dict[str, object]:
    """Return the values that the section of a data set must have."""
    return {"relatives": True}


def views(cfg: Config, step: int) -> Views:
    """Ask for one negative per caption."""
    return Views(negatives=(replace.clove,), caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return CLIP's loss with the batch's negatives among the texts, a scalar."""
    return {"negclip": losses.negclip(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)}

"""Plain fine-tuning: the effect of the data alone (CLIC Table 10, B1; Hard Positives, CLIP-COCO; C2LIP, Table 2).

B images, D dim. The loss is CLIP's, or SigLIP's (`loss: sigmoid`), for which a softmax backbone gets a learnt bias
(`init_bias`, as in `c2lip`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.lazy_torch import torch
from compclip.interface.views import Views
from compclip.methods import _check
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    loss: str = "clip"  # "sigmoid": SigLIP's (C2LIP Eq. 4)
    init_bias: ClassVar[float] = -10.0  # of the learnt bias that a softmax backbone gets for it

    def __post_init__(self) -> None:
        _check.one_of(self, loss=("clip", "sigmoid"))


def needs_bias(cfg: Config) -> bool:
    """Return whether the loss is a sigmoid loss."""
    return cfg.loss == "sigmoid"


def views(cfg: Config, step: int) -> Views:
    """Ask for the picture and its caption."""
    return Views(caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return CLIP's loss, or SigLIP's, a scalar."""
    if cfg.loss == "sigmoid":
        own_B = torch.arange(len(f.image_BD), device=f.image_BD.device)
        return {"sigmoid": losses.sigmoid(f.image_BD, f.text_BD, own_B, f.scale, f.bias)}
    return {"clip": losses.clip(f.image_BD, f.text_BD, f.scale)}  # CLIC Eq. 1

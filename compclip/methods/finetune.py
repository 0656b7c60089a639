"""Plain fine-tuning with the CLIP loss: what the data alone brings (CLIC Table 10, B1; Hard Positives, CLIP-COCO)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.methods import _check
from compclip.train import losses
from compclip.train.batch import Views

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.train.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config:
    caption: str = "full"  # the whole caption, or its "first" sentence

    def __post_init__(self) -> None:
        _check.one_of(self, "caption", ("full", "first"))


def views(cfg: Config, step: int) -> Views:
    """The picture and its caption."""
    return Views(caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """The CLIP loss, a scalar."""
    return {"clip": losses.clip(f.image_BD, f.text_BD, f.scale)}  # CLIC Eq. 1

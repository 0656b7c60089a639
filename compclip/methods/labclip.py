"""LABCLIP: a linear map behind the frozen text tower (Koishigarina et al., ICLR 2026, arXiv:2502.03566), Sec. 5.

B images, K negatives, D dim. A text is compared as normalise(A t); A is the identity at first and stays in the finished
model. Both towers are frozen (`train.trainable: none`). As released, the map has a temperature of its own, which starts
at exp(0), and the negatives shuffle nouns and adjectives.

Departures: a caption that the shuffle does not change has no negative (released: it is its own negative); captions keep
their full stops, brackets and length (released: these are removed, and so are all words after the fortieth).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.interface.views import Views, Widths
from compclip.methods import _check
from compclip.text import shuffle
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor, nn

    from compclip.interface.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    negatives: bool = part(True, off=False)  # "HNB", hard negatives in the batch; false: "SB"
    swap: ClassVar[str] = "nouns_and_adjectives"  # their rule
    scale: ClassVar[str] = "own"  # the map has its own temperature


def views(cfg: Config, step: int) -> Views:
    """Ask for one negative per caption, if negatives are on."""
    return Views(negatives=(shuffle.nouns_and_adjectives,) * cfg.negatives, caption=cfg.caption)


def heads(cfg: Config, widths: Widths) -> nn.Module:
    """Return the linear map, which is the identity at first."""
    from compclip.model.heads import TextMap

    return TextMap(widths.joint)


def keeps_heads(cfg: Config) -> bool:
    """Return True: the finished model compares mapped texts."""
    return True


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return CLIP's loss of images and mapped texts, including the batch's mapped negatives; a scalar."""
    scale = f.heads.log_scale.exp()
    text_BD = f.heads.map_texts(f.text_BD)
    negative_BKD = f.heads.map_texts(f.negative_BKD)
    return {"negclip": losses.negclip(f.image_BD, text_BD, negative_BKD, f.mask_BK, scale)}

"""DeGLA: decoupled global-local alignment (Hu et al., ACM MM 2025, arXiv:2504.16801), Sec. 3.

B images, K negatives, D dim; `f.teacher` has the features of the batch from a moving average of the model.

Departures: the base loss has all negatives of the batch, as in the released code (Eq. 4: only an image's own); a
caption without a valid negative is left out of the grounded terms; the teacher is part of a checkpoint (released: a
resumed run begins with a new one). `text_negatives: released` computes Eq. 9 as the released code does. Its mask has
another order than the negatives, so each caption is contrasted with negatives of other captions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import torch
from compclip.interface.views import Teacher, Views
from compclip.methods import _check
from compclip.text import replace, shuffle, stored_texts, swap
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True
RULES = {
    "stored": tuple(stored_texts.nth(k) for k in range(4)),  # texts of the authors' language model, joined to the data
    "rules": (
        shuffle.bigram,
        swap.nouns,
        replace.of_pos("ADJ"),
        replace.of_pos("NOUN"),
    ),  # the same four kinds, by rule
}


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    lambda_image: float = part(0.1, off=0.0)  # lambda 1, Eq. 10
    lambda_text: float = part(0.1, off=0.0)  # lambda 2
    lambda_distill: float = part(0.005, off=0.0)  # lambda 3, of a sum over a batch of 256
    decay: float = 0.9996  # decay of the teacher, Eq. 6
    text_scale: ClassVar[float] = 10.0  # in Eq. 9
    text_negatives: str = "own"  # in Eq. 9; "released": those of other captions, as in the released code
    negatives: str = "stored"  # data.<name>.texts.negative; "rules": ours, of the same kinds

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "lambda_image", "lambda_text", "lambda_distill")
        _check.fraction(self, "decay")
        _check.one_of(self, text_negatives=("own", "released"), negatives=RULES)


def views(cfg: Config, step: int) -> Views:
    """Ask for four negatives per caption (Sec. 3.2)."""
    return Views(negatives=RULES[cfg.negatives], caption=cfg.caption)


def teacher(cfg: Config) -> Teacher:
    """Return the moving average of the model (Eq. 6)."""
    return Teacher(cfg.decay)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the four terms of Eq. 10 as weighted scalars, without those of weight 0."""
    negatives = (f.negative_BKD, f.mask_BK)
    terms = {"negclip": losses.negclip(f.image_BD, f.text_BD, *negatives, f.scale)}  # Eq. 4-5
    if cfg.lambda_image:
        terms["image"] = cfg.lambda_image * losses.s_neg(f.image_BD, f.text_BD, *negatives, f.scale)  # Eq. 8
    if cfg.lambda_text:
        terms["text"] = cfg.lambda_text * text_grounded(f, cfg)  # Eq. 9
    if cfg.lambda_distill:
        terms["distill"] = cfg.lambda_distill * distill(f)  # Eq. 7
    return terms


def text_grounded(f: Features, cfg: Config) -> Tensor:
    """Return Eq. 9: contrast a caption's teacher embedding with its negatives, at a fixed scale."""
    negative_BKD = f.negative_BKD
    mask_BK = f.mask_BK
    if cfg.text_negatives == "released":
        B, K = mask_BK.shape
        place_BK = torch.arange(B, device=mask_BK.device)[:, None] + B * torch.arange(K, device=mask_BK.device)
        negative_BKD = negative_BKD.flatten(0, 1)[place_BK]
        mask_BK = mask_BK.flatten()[place_BK]
    scale = f.scale.new_full((), cfg.text_scale)
    return losses.s_neg(f.text_BD, f.teacher.text_BD, negative_BKD, mask_BK, scale)


def distill(f: Features) -> Tensor:
    """Return Eq. 7: squared distances to the teacher, summed over the batch's images and texts."""
    images = losses.squared_distance(f.image_BD, f.teacher.image_BD)
    texts = losses.squared_distance(f.text_BD, f.teacher.text_BD)
    negative_BK = losses.squared_distance(f.negative_BKD, f.teacher.negative_BKD)
    return images.sum() + texts.sum() + negative_BK.masked_fill(~f.mask_BK, 0.0).sum()

"""SemCLIP: paraphrases agree and negations disagree along a few directions (Ngan et al., 2025, arXiv:2511.16527).

B images with captions t, paraphrases t+ and negations t-, V directions of the joint space, D dim. p(t) = t·Vᵀ are the
coordinates of a text along the directions. These are orthonormal, drawn from the run's seed, and fixed, or trained
(`learnable`). The equations are those of its program (aaai26-paper12649/SemCLIP, 88f67c2: README, src/custom_loss.py),
which freezes the image tower (`train.trainable: text`).

Departures: the contrast is of unit vectors with the backbone's own scale (released: of vectors of any length, with a
scale that begins at 1 / 0.07 and is not clamped); a caption without a paraphrase or a negation is left out of that
mean. In the release, a negation is "a completely false version" of a caption.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import F, torch
from compclip.interface.views import Views, Widths
from compclip.methods import _check
from compclip.text import negate, stored_texts
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor, nn

    from compclip.interface.features import Features

TRAINS = True
RULES = {"stored": stored_texts.first_negative, "rule": negate.conclip}


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    beta: float = part(1.0, off=0.0)  # weight of the paraphrases; the contrast's, alpha, is 1
    gamma: float = part(1.0, off=0.0)  # weight of the negations
    directions: ClassVar[int] = 2  # num_projection_vectors; with a single one, cosines are ±1 and have no gradient
    learnable: ClassVar[bool] = False  # use_learnable_projections
    negations: str = "stored"  # from data.<name>.texts.negative; "rule": deny one thing

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "beta", "gamma")
        _check.one_of(self, negations=RULES)


def views(cfg: Config, step: int) -> Views:
    """Ask for a paraphrase (data.<name>.texts.paraphrase) and a negation, each if its weight is not 0."""
    return Views(
        positives=(stored_texts.paraphrase,) if cfg.beta else (),
        negatives=(RULES[cfg.negations],) if cfg.gamma else (),
        caption=cfg.caption,
    )


def heads(cfg: Config, widths: Widths) -> nn.Module:
    """Return the directions, rows of a matrix [V, D]."""
    directions = torch.nn.Linear(widths.joint, cfg.directions, bias=False)
    torch.nn.init.orthogonal_(directions.weight)
    return directions.requires_grad_(cfg.learnable)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the terms of (α L_contrastive + β L_paraphrase + γ L_negation) / (α + β + γ), if not of weight 0."""
    total = 1 + cfg.beta + cfg.gamma
    terms = {"clip": losses.clip(f.image_BD, f.text_BD, f.scale) / total}
    if cfg.beta:
        agree_B = agreement(f, f.positive_BPD[:, 0])
        terms["paraphrase"] = cfg.beta * losses.masked_mean(1 - agree_B, f.positive_mask_BP[:, 0]) / total
    if cfg.gamma:
        agree_B = agreement(f, f.negative_BKD[:, 0])
        terms["negation"] = cfg.gamma * losses.masked_mean(agree_B.clamp_min(0.0), f.mask_BK[:, 0]) / total
    return terms


def agreement(f: Features, other_BD: Tensor) -> Tensor:
    """Return cos(p(t), p(t′)) [B] of each caption and another text of the same sample."""
    return losses.cosines(F.normalize(f.heads(f.text_BD), dim=-1), F.normalize(f.heads(other_BD), dim=-1))

"""Omni-NegCLIP: negations of what is there and of what is absent (Xu, CVPR 2026 workshops, arXiv:2603.29258).

B images v with captions t, K = 1 caption n that denies a thing that is there (false of v), P = 1 caption a that denies
a thing that is absent (true of v), D dim. The terms are those of its program (Jingqi-Xu/Omni-NegCLIP, 5806326:
src/training_utils/loss_functions.py, src/training_omni_negclip.py.py). It trains the first six of twelve text layers,
the embeddings, the last norm and the projection (`train: {trainable: text, text_layers: 6}`).

Departures: n and a are in the same batch (released: each step has a batch of CC-Neg and one of COCO, for n and a); a
sample without n, or without a, takes no part in that term, neither as query nor as key; losses are computed in float32
or higher.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

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
RULES = {"stored": stored_texts.first_negative, "rule": negate.conclip}


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    lambda_absent: float = part(1.0, off=0.0)  # --lambda-stage2: contrast of v and a
    lambda_caption: float = part(1.0, off=0.0)  # --lambda-orig: contrast of v and t, for samples with a
    lambda_apart: float = part(1.0, off=0.0)  # --lambda-text: pushes t and a apart
    margin: ClassVar[float] = 0.9  # --margin: t and a are pushed below a cosine of -0.9
    negations: str = "stored"  # n from data.<name>.texts.negative (CC-Neg); "rule": deny one thing

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "lambda_absent", "lambda_caption", "lambda_apart")
        _check.one_of(self, negations=RULES)


def views(cfg: Config, step: int) -> Views:
    """Ask for a negation of what is there; if a term uses it, also for one of what is absent (texts.absent)."""
    absent = cfg.lambda_absent or cfg.lambda_caption or cfg.lambda_apart
    positives = (stored_texts.absent,) if absent else ()
    return Views(negatives=(RULES[cfg.negations],), positives=positives, caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return presence-based and absence-based terms as weighted scalars, without those of weight 0."""
    terms = {"presence": presence(f)}
    if not views(cfg, step).positives:
        return terms
    absent_BD = f.positive_BPD[:, 0]
    there_B = f.positive_mask_BP[:, 0]
    if cfg.lambda_absent:
        terms["absent"] = cfg.lambda_absent * losses.clip_of(f.image_BD, absent_BD, f.scale, there_B)
    if cfg.lambda_caption:
        terms["caption"] = cfg.lambda_caption * losses.clip_of(f.image_BD, f.text_BD, f.scale, there_B)
    if cfg.lambda_apart:
        short_B = (losses.cosines(f.text_BD, absent_BD) + cfg.margin).clamp_min(0.0)
        terms["apart"] = cfg.lambda_apart * losses.masked_mean(short_B, there_B)
    return terms


def presence(f: Features) -> Tensor:
    """Return the mean of three losses: v against all t and n, t against all v, and v against t and its own n."""
    there_B = f.mask_BK[:, 0]
    key_ND = torch.cat([f.text_BD, f.negative_BKD[:, 0]])
    to_text = losses.matching_of(f.image_BD, key_ND, f.scale, there_B, torch.cat([there_B, there_B]))
    to_image = losses.matching_of(f.text_BD, f.image_BD, f.scale, there_B, there_B)
    own = losses.s_neg(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)
    return (to_text + to_image + own) / 3

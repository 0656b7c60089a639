"""FSC-CLIP: fine-grained selective calibrated CLIP (Oh et al., EMNLP 2024, arXiv:2410.05210), Sec. 3.

B images, K negatives, C = 1 + K candidate texts, N patches, T tokens, D dim.

Departures: masked negatives are left out of the softmax (released code: they stay with logit 0); a batch without
negatives gives 0 (released code: NaN); under DDP both negative terms are over the batch of all processes (released
code: of each).

The rules are ours after A.1, or as released (`swap: negclip_released`, `replace: clove`, `shuffle: tokens`).

Ablation rows by parameters: 1 lambda_local 0, 2 lambda_global 0, 3 neither, all with gamma 0 and epsilon 0; 4 is 3 with
gamma, 5 with epsilon, 6 with both; 7 and 8 are 1 and 2 with both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.base.ablation_parts import part
from compclip.interface.views import Views
from compclip.methods import _check
from compclip.methods._parts import hard_negative, local_scores
from compclip.text import replace, shuffle, swap
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True
TERMS = ("lambda_global", "lambda_local")  # terms of hard negatives


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    lambda_global: float = part(0.5, off=0.0)  # Eq. 11; 1.0 for CC3M
    lambda_local: float = part(0.2, off=0.0)  # Eq. 11; the released B/16 and L/14 runs use 0.5
    gamma: float = part(2.0, off=0.0, of=TERMS)  # focal exponent, Eq. 9
    epsilon: float = part(0.02, off=0.0, of=TERMS)  # label smoothing, Eq. 10; called beta in the paper
    attention: str = "minmax"  # Eq. 6; "minmax_sparse" and "softmax" in the appendix
    swap: str = "negclip"  # A.1; "negclip_released", as released: also exchanges words joined by "and"
    replace: str = "wordnet"  # A.1; "clove", as released; needs data with `relatives: true`
    shuffle: str = "words"  # "tokens", as released: tokens of the parser, including full stops

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "lambda_global", "lambda_local", "gamma")
        _check.fraction(self, "epsilon")
        _check.one_of(
            self,
            attention=losses.ATTENTION,
            swap=swap.RULES,
            replace=replace.RULES,
            shuffle=shuffle.RULES,
        )


def needs(cfg: Config) -> dict[str, object]:
    """Return the values that the section of a data set must have."""
    return {"relatives": True} if cfg.replace == "clove" else {}


def views(cfg: Config, step: int) -> Views:
    """Ask for three negatives per caption (A.1), and for tokens if the local term is on."""
    rules = (swap.RULES[cfg.swap], replace.RULES[cfg.replace], shuffle.RULES[cfg.shuffle])
    tokens = cfg.lambda_local > 0
    return Views(negatives=rules, caption=cfg.caption, tokens=tokens, own_tokens=tokens)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the three terms of Eq. 11 as weighted scalars, without those of weight 0."""
    terms = {"clip": losses.clip(f.image_BD, f.text_BD, f.scale)}  # Eq. 2
    calibrated = cfg.gamma, cfg.epsilon  # Eq. 9–10
    if cfg.lambda_global:
        terms["global"] = cfg.lambda_global * hard_negative(global_scores(f), f, *calibrated)  # Eq. 3–4
    if cfg.lambda_local:
        terms["local"] = cfg.lambda_local * hard_negative(local_scores(f, cfg.attention), f, *calibrated)  # Eq. 5–8
    return terms


def global_scores(f: Features) -> Tensor:
    """Return the scores s v·t [B, C] of each image and its candidate texts."""
    return losses.candidate_scores(f.image_BD, f.text_BD, f.negative_BKD, f.scale)

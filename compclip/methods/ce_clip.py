"""CE-CLIP: contrasting intra-modal and ranking cross-modal hard negatives (Zhang et al., CVPR 2024, arXiv:2306.08832).

B images, K kinds of negatives (relation, adjective, noun, verb), D dim. Similarities are logits, s v·t. The authors'
releases differ in the intra-modal term; in two of them another text is the target. Here the caption must be nearer to
its image than to all negatives of the batch.

Departures: masked negatives are left out of every softmax (released: they stay); a kind without a valid negative in a
batch keeps its threshold (released: NaN); thresholds continue over the epochs (released: they begin at 0 in each).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import torch
from compclip.interface.views import Views
from compclip.methods import _check, _parts
from compclip.methods._kinds import RULES, KindsConfig
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config(KindsConfig):
    lambda_rank: float = part(0.4, off=0.0)  # cross-modal rank (CMR)
    lambda_intra: float = part(0.2, off=0.0)  # intra-modal contrast (IMC)
    threshold: str = part("mean", off="fixed", of=("lambda_rank",), name="adaptive_threshold")  # "fixed": `largest`
    largest: ClassVar[float] = 10.0  # largest threshold
    imc: ClassVar[str] = "batch"  # the intra-modal term has the negatives of the batch

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.at_least(self, 0, "lambda_rank", "lambda_intra")
        _check.one_of(self, threshold=("mean", "fixed"))


def views(cfg: Config, step: int) -> Views:
    """Ask for one negative of each kind."""
    return Views(negatives=RULES[cfg.words], caption=cfg.caption)


def memory(cfg: Config) -> dict[str, Tensor]:
    """Return the thresholds of the first step, one for each kind."""
    return {"threshold_K": torch.full((len(RULES[cfg.words]),), 0.0 if cfg.threshold == "mean" else cfg.largest)}


def remember(f: Features, cfg: Config) -> dict[str, Tensor]:
    """Return the thresholds of the next step: the lead of captions over each kind's negatives, within [0, largest]."""
    before_K = f.memory["threshold_K"]
    if cfg.threshold == "fixed":
        return {"threshold_K": before_K}
    lead_K = _parts.mean_leads(f).clamp(0.0, cfg.largest)
    return {"threshold_K": torch.where(f.mask_BK.any(dim=0), lead_K, before_K.to(lead_K.dtype))}


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the contrast with negatives, rank and intra-modal term as weighted scalars, without those of weight 0."""
    terms = {"negclip": losses.negclip(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)}
    if cfg.lambda_rank:
        terms["rank"] = cfg.lambda_rank * _parts.margins(f, f.memory["threshold_K"])
    if cfg.lambda_intra:
        terms["intra"] = cfg.lambda_intra * intra(f)
    return terms


def intra(f: Features) -> Tensor:
    """Pull each caption to its image and away from all negative captions, in one softmax; return a scalar."""
    own_B1 = _parts.candidate_scores(f)[:, :1]
    text_BN = losses.similarities(f.text_BD, f.negative_BKD.flatten(0, 1), f.scale)
    logits_BC = torch.cat([own_B1, text_BN.masked_fill(~f.mask_BK.flatten(), -torch.inf)], dim=1)
    return -logits_BC.log_softmax(dim=1)[:, 0].mean()

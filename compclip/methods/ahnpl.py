"""AHNPL: adaptive hard negative perturbation learning (Huang et al., IJCAI 2025, arXiv:2505.15576), as released.

B images, K kinds of negatives, D dim. Similarities are logits, s v·t. Each caption must lead each of its negatives by a
margin that is computed from the previous batch (as in CE-CLIP). The difference n - t of a negative and its caption,
without a gradient, is added to the image; this makes the image's own negatives. Then caption and image are each
contrasted with their negatives within the same modality.

`answer: released` computes what the released program does: its labels count the rows 0 to B - 1, so that the right
answer of row i is negative i of the whole batch. With `answer: pair`, the right answer is the pair itself.

Departures: masked negatives are left out of every softmax and mean of logits (released: they stay, as empty texts); a
kind without a valid negative keeps its margin; the margin of the positive pair is left out (released: a number drawn
once, at least 0.2, which the logit of a pair exceeds from the start); margins continue over the epochs (released: they
begin at 0 in each).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import F, torch
from compclip.interface.views import Views
from compclip.methods import _check, _parts
from compclip.methods._kinds import RULES, KindsConfig
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True
ANSWERS = ("pair", "released")


@dataclass(frozen=True)
class Config(KindsConfig):
    lambda_margin: float = part(0.2, off=0.0)  # scripts/run.sh: mar_weight
    lambda_negative: float = part(0.2, off=0.0)  # neg_weight
    largest: ClassVar[float] = 10.0  # largest margin; upper_bound
    answer: str = "released"  # right answer of the terms within a modality; or "pair"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.at_least(self, 0, "lambda_margin", "lambda_negative")
        _check.one_of(self, answer=ANSWERS)


def views(cfg: Config, step: int) -> Views:
    """Ask for one negative of each kind."""
    return Views(negatives=RULES[cfg.words], caption=cfg.caption)


def memory(cfg: Config) -> dict[str, Tensor]:
    """Return the margins of the first step, 0 for each kind."""
    return {"margin_K": torch.zeros(len(RULES[cfg.words]))}


def remember(f: Features, cfg: Config) -> dict[str, Tensor]:
    """Return by how much captions lead each kind of negatives on average, between 0 and `largest`."""
    lead_K = _parts.mean_leads(f).clamp(0.0, cfg.largest)
    return {"margin_K": lead_K.where(f.mask_BK.any(dim=0), f.memory["margin_K"].to(lead_K))}


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the contrast with negatives, margins, and terms within each modality, as weighted scalars."""
    terms = {"negclip": losses.negclip(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)}
    if cfg.lambda_margin:
        terms["margin"] = cfg.lambda_margin * _parts.margins(f, f.memory["margin_K"])
    if cfg.lambda_negative:
        terms["negative"] = cfg.lambda_negative * within_modalities(f, cfg)
    return terms


def within_modalities(f: Features, cfg: Config) -> Tensor:
    """Contrast captions with negative captions, and images with negative images made from them; return the sum."""
    shift_BKD = (f.negative_BKD - f.text_BD[:, None]).detach()
    image_negative_BKD = f.image_BD[:, None] + shift_BKD
    sides = ((f.text_BD, f.negative_BKD), (f.image_BD, image_negative_BKD))
    return sum((_told_apart(f, query_BD, negative_BKD, cfg.answer) for query_BD, negative_BKD in sides), f.scale * 0)


def _told_apart(f: Features, query_BD: Tensor, negative_BKD: Tensor, answer: str) -> Tensor:
    logits_BN = losses.similarities(query_BD, negative_BKD.flatten(0, 1), f.scale)
    own_B = torch.arange(len(query_BD), device=query_BD.device)
    if answer == "released":
        there_B = f.mask_BK.flatten()[: len(query_BD)]
        logits_BN = logits_BN.masked_fill(~f.mask_BK.flatten(), -torch.inf)
        logits_BN = torch.where(there_B[:, None], logits_BN, torch.zeros_like(logits_BN))
        return losses.masked_mean(F.cross_entropy(logits_BN, own_B, reduction="none"), there_B)
    pair_B1 = f.scale * losses.cosines(f.image_BD, f.text_BD)[:, None]
    logits_BN = torch.cat([pair_B1, logits_BN.masked_fill(~f.mask_BK.flatten(), -torch.inf)], dim=1)
    return -logits_BN.log_softmax(dim=1)[:, 0].mean()

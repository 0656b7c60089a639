"""Hard positives: training on rewrites that keep the meaning (Kamath et al., ECCV 2024), supplementary E.1.

B images, K negatives, P rules for positives, D dim. E.1 follows SVLC: a contrastive loss, a hard-negative loss and an
analogy loss on the hard positive. E.1 reads as plain CLIP plus both; SVLC's released default also has the negatives in
the contrast (`negatives_in_contrastive`).

Departures: texts come from rules unless `source: llm`; one softmax has up to one negative per rule, while E.1 retrieves
one; a caption with both kinds of hard positives uses the swap, which is rarer (119,071 of 710,824, D.2), while E.1
subsamples.

Variants: hard_positives none (HN only), both (HP + HN), swap, replace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.interface.views import Views
from compclip.methods import _check
from compclip.text import positives, replace, swap
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True
KINDS = {"both": ("swap", "replace"), "swap": ("swap",), "replace": ("replace",), "none": ()}


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    lambda_s_neg: float = part(1.0, off=0.0)  # SVLC
    lambda_analogy: float = 1.0  # SVLC
    negatives_in_contrastive: bool = part(True, off=False)  # SVLC's released default; false is how E.1 reads
    hard_negatives: str = "both"  # rules that make them: both, swap, replace
    hard_positives: str = part("both", off="none", of=("lambda_analogy",))  # both, swap, replace, none
    swap: ClassVar[str] = "negclip"  # the rule for swapped negatives
    replace: str = "wordnet"  # or "clove", which needs data with `relatives: true`
    source: str = "rules"  # of the hard positives: rules, or the llm of data.<name>.rewriter

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "lambda_s_neg", "lambda_analogy")
        _check.one_of(self, hard_negatives=("both", "swap", "replace"), hard_positives=KINDS)
        _check.one_of(self, replace=replace.RULES, source=positives.RULES)


def needs(cfg: Config) -> dict[str, object]:
    """Return the values that the section of a data set must have."""
    return {"relatives": True} if cfg.replace == "clove" and "replace" in KINDS[cfg.hard_negatives] else {}


def views(cfg: Config, step: int) -> Views:
    """Ask for negatives and hard positives by the rules that are on."""
    negatives = {"swap": swap.negclip, "replace": replace.RULES[cfg.replace]}
    return Views(
        negatives=tuple(negatives[kind] for kind in KINDS[cfg.hard_negatives]),
        positives=tuple(positives.RULES[cfg.source][kind] for kind in KINDS[cfg.hard_positives]),
        caption=cfg.caption,
    )


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return contrast, hard-negative and analogy term as weighted scalars; without hard positives, no analogy term."""
    negatives = (f.negative_BKD, f.mask_BK)
    if cfg.negatives_in_contrastive:
        terms = {"negclip": losses.negclip(f.image_BD, f.text_BD, *negatives, f.scale)}
    else:
        terms = {"clip": losses.clip(f.image_BD, f.text_BD, f.scale)}
    terms["s_neg"] = cfg.lambda_s_neg * losses.s_neg(f.image_BD, f.text_BD, *negatives, f.scale)
    if cfg.hard_positives != "none":
        rewrites = (f.positive_BPD, f.positive_mask_BP)
        terms["analogy"] = cfg.lambda_analogy * losses.analogy(f.image_BD, f.text_BD, *rewrites, f.scale)
    return terms

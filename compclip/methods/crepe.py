"""CREPE-Swap, -Replace, -Negate: NegCLIP's loss with one of CREPE's three kinds of wrong captions in each model.

B images, K negatives, D dim. The authors (SugarCrepe, Hsieh et al., NeurIPS 2023, Table 5; scored by Hard Positives,
Table 4) publish weights and the negatives of COCO, but no program. The rules here are ours, after CREPE (Ma et al.,
CVPR 2023) and its benchmark. `all` has one negative of each kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.interface.views import Views
from compclip.methods import _check
from compclip.text import negate, replace, swap
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True
RULES = {
    "swap": (swap.atoms,),
    "replace": (replace.wordnet,),
    "negate": (negate.crepe,),
    "all": (swap.atoms, replace.wordnet, negate.crepe),
}
AS_PUBLISHED = {swap.atoms: swap.atoms_released, negate.crepe: negate.crepe_released}


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    kind: str = "swap"  # kind of negatives: swap, replace, negate, or "all" for one of each
    texts: str = "fitting"  # correct English; "released": uncorrected, like the published negatives

    def __post_init__(self) -> None:
        _check.one_of(self, kind=RULES, texts=("fitting", "released"))


def views(cfg: Config, step: int) -> Views:
    """Ask for the negatives of the kind."""
    rules = RULES[cfg.kind]
    if cfg.texts == "released":
        rules = tuple(AS_PUBLISHED.get(rule, rule) for rule in rules)
    return Views(negatives=rules, caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return CLIP's loss with the batch's negatives among the texts, a scalar."""
    return {"negclip": losses.negclip(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)}

"""C2LIP: concept-centric learning without hard negatives (Samsung Labs, concept_centric_clip), Sec. 3.

B images, N patches, M concepts of the batch, D dim. Concepts are noun phrases; each is positive only for its own image.

Departures: the paper does not say how concepts are pooled. `pooled` takes the mean of their raw projected tokens; the
released code encodes each concept as a separate text (`encoded`). Under DDP the concept terms contrast the whole batch
(released code: the images of one process with the concepts of all, which gives an IndexError at concepts of others). A
softmax backbone gets a learnt bias: choose `init_bias` such that the contrastive loss is lowest at the start. With s
the scale, c the cosine of a pair that does not match and N captions in the batch, that is near −s c − log N. For CLIP
it is about −27 (100, 0.15, 768; if cosines of its pairs vary, the highest ones count), for SigLIP −10 at scale 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import torch
from compclip.interface.views import Views
from compclip.methods import _check
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    lambda_npc: float = part(1.0, off=0.0)  # Eq. 8
    lambda_xac: float = part(0.01, off=0.0)  # Eq. 8
    concepts: str = "pooled"  # "encoded" in the released code
    whole_concept: bool = False  # true: a caption without concepts counts as one, as in the released code
    init_bias: float = -10.0  # of the learnt bias that a softmax backbone gets; SigLIP keeps its own

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "lambda_npc", "lambda_xac")
        _check.one_of(self, concepts=("pooled", "encoded"))
        _check.finite(self, "init_bias")


def needs_bias(cfg: Config) -> bool:
    """Return True: all terms are sigmoid losses, so a backbone without a bias needs a learnt one."""
    return True


def views(cfg: Config, step: int) -> Views:
    """Ask for concepts if a term uses them, and for patches if the cross-attended term is on."""
    concepts = cfg.concepts if cfg.lambda_npc or cfg.lambda_xac else ""
    tokens = cfg.lambda_xac > 0
    return Views(
        concepts=concepts, whole_concept=cfg.whole_concept, caption=cfg.caption, tokens=tokens, own_tokens=tokens
    )


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the three terms of Eq. 8 as weighted scalars, without those of weight 0."""
    from compclip.train import own_rows

    own_B = torch.arange(len(f.image_BD), device=f.image_BD.device)
    terms = {"contrastive": losses.sigmoid(f.image_BD, f.text_BD, own_B, f.scale, f.bias)}  # Eq. 4
    if cfg.lambda_npc:
        npc = losses.sigmoid(f.image_BD, f.concept_MD, f.owner_M, f.scale, f.bias)  # Eq. 5
        terms["npc"] = cfg.lambda_npc * npc
    if cfg.lambda_xac:
        xac = own_rows.cross_attended(f)  # Eq. 6–7
        terms["xac"] = cfg.lambda_xac * xac
    return terms

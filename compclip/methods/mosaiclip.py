"""MosaiCLIP: contrast of an image with sub-graphs of its caption (Singh et al., EMNLP 2023, arXiv:2305.13812).

B images v, T true texts of each (its caption first), K negatives of each, D dim. Sub-graphs of the caption's scene
graph are further true texts, and changed sub-graphs are negatives (`text.sub_graphs`). An image is contrasted with all
texts of the batch; each of its own texts is a right answer. The first steps have one sub-graph and one negative of it,
later steps have more (Sec. 3.6). No program was released.

The paper does not say when the second stage begins: here it is after 1,000 of about 2,100 steps, which its batch and
epochs give for 109,000 captions. That the caption itself is a text besides the three sub-graphs is inferred from "m >
n" (Sec. 3.5) and from H.1, which has NegCLIP's negative of it.

Departures: sums over the batch are divided by B, so that a learning rate means the same as for other methods; an image
without sub-graphs has only its caption (theirs, from scratch: texts of earlier batches fill the places). Its WiSE-FT
averages only the vision tower; a grid's `wise_ft` averages both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import torch
from compclip.interface.views import Views
from compclip.methods import _check
from compclip.text import sub_graphs, swap
from compclip.text.rule_columns import reads_columns
from compclip.text.text_groups import DrawnTexts, SampleTexts, TextGroup
from compclip.train import losses

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from compclip.interface.features import Features
    from compclip.text.annotation import Annotation

    SubGraphRule = Callable[[Annotation, np.random.Generator], tuple[Sequence[str], Sequence[str]]]

TRAINS = True


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    positives: ClassVar[int] = 3  # at most so many sub-graphs of an image; H.1
    negatives: int = part(6, off=0)  # at most so many negatives of these; H.1
    share_object: float = part(0.15, off=0.0)  # share among the kinds of pairs, p1 of H.1; B
    share_relation: float = part(0.425, off=0.0)  # p2 = p3; Table 7
    share_attribute: float = part(0.425, off=0.0)
    single_steps: int = part(1000, off=0)  # first steps, with one sub-graph and one negative (curriculum, Sec. 3.6)
    swapped: bool = part(True, off=False)  # NegCLIP's negative of the caption; H.1
    words: dict[str, list[str]] = field(default_factory=dict)  # objects, attributes and relations that replace ours

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "negatives", "single_steps", "share_object", "share_relation", "share_attribute")
        no_pairs = self.share_object + self.share_relation + self.share_attribute == 0
        fault = "share_object=0, share_relation=0, share_attribute=0: no pair is drawn; give one a share"
        _check.refuse(no_pairs, fault)
        sub_graphs.parse_sets(self.words)


def views(cfg: Config, step: int) -> Views:
    """Ask for sub-graphs and their negatives (one of each in the first stage), and for NegCLIP's negative."""
    shares = cfg.share_object, cfg.share_relation, cfg.share_attribute
    sets = sub_graphs.parse_sets(cfg.words)
    group = sub_graph_group(sets, shares, cfg.positives, cfg.negatives, step < cfg.single_steps)
    return Views(negatives=(swap.negclip,) * cfg.swapped, groups=(group,), caption=cfg.caption)


@cache
def sub_graph_group(
    sets: sub_graphs.WordSets, shares: tuple[float, ...], positives: int, negatives: int, is_single: bool
) -> TextGroup:
    """Return the group of a stage, as the same object in all its steps."""
    name = "sub_graphs.draw"
    rule = partial(sub_graphs.draw, sets, shares, positives, negatives)
    if is_single:
        name = "sub_graphs.draw_one"
        rule = partial(sub_graphs.draw_one, sets, shares)
    return TextGroup(name, partial(draw_sub_graphs, rule), true=positives, false=negatives)


@reads_columns()
def draw_sub_graphs(rule: SubGraphRule, sample: SampleTexts, rng: np.random.Generator) -> DrawnTexts:
    """Draw sub-graphs of a caption and negatives of them, without duplicates."""
    true_texts, false_texts = rule(sample.caption, rng)
    return DrawnTexts(true_texts, false_texts)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the image-to-multi-text and the text-to-image loss (Sec. 3.5) as scalars, each with weight 1/2."""
    B = f.positive_mask_BP.shape[0]
    T = 1 + f.positive_mask_BP.shape[1]
    text_ND = torch.cat([f.text_BD[:, None], f.positive_BPD], dim=1).flatten(0, 1)  # N = B T
    there_N = losses.with_original(f.positive_mask_BP).flatten()
    own_BN = torch.eye(B, dtype=torch.bool, device=there_N.device).repeat_interleave(T, dim=1) & there_N
    logit_BN = losses.similarities(f.image_BD, text_ND, f.scale)
    negative_BM = losses.similarities(f.image_BD, f.negative_BKD.flatten(0, 1), f.scale)  # M = B K
    negative_BM = negative_BM.masked_fill(~f.mask_BK.flatten(), -torch.inf)
    every_B1 = torch.cat([logit_BN.masked_fill(~there_N, -torch.inf), negative_BM], dim=1).logsumexp(1, keepdim=True)
    to_text_BN = (logit_BN - every_B1).masked_fill(~own_BN, 0.0)
    to_image_BN = logit_BN.log_softmax(dim=0).masked_fill(~own_BN, 0.0)
    return {
        "to_text": -(to_text_BN.sum(dim=1) / own_BN.sum(dim=1)).mean() / 2,  # L_i2t: the mean over an image's texts
        "to_image": -to_image_BN.sum() / B / 2,  # L_t2i: the sum over all texts
    }

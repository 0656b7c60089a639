"""DAC: dense and aligned captions (Doveh et al., NeurIPS 2023, arXiv:2305.19595); DAC-LLM and DAC-SAM by their data.

B images, K = 1 + M negatives (the first is that of the caption, the others those of the bag), M texts of a bag, D dim.
A bag holds M texts about a picture: by a language model (LLM), or about its segments (SAM), from
data.<name>.texts.dense.

Departures: a text of a bag may have no negative (released: one vector for all of them); with several processes, all
terms equal those of one process (released: the contrast loses its negatives, and bag negatives meet other images, or
zeros instead of those of other processes).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import torch
from compclip.interface.views import Views
from compclip.methods import _check
from compclip.text import dense_texts, masked_words
from compclip.text.text_groups import Rule
from compclip.text.wordlists import WordListConfig, WordLists
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config(WordListConfig, _check.CaptionConfig):
    lambda_s_neg: float = part(1.0, off=0.0)
    lambda_mil: float = part(1.0, off=0.0)
    lambda_bag: float = part(1.0, off=0.0)  # weight of the bag's negatives
    bag: int = 10  # texts drawn from those of a picture, with replacement
    negatives: str = "lists"  # SVLC's rule; "both": or a masked model's words, by a fair coin (rand_both)
    own: ClassVar[str] = "twice"  # a bag is twice in its own denominator: once per direction, as released

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.at_least(self, 0, "lambda_s_neg", "lambda_mil", "lambda_bag")
        _check.at_least(self, 1, "bag")
        _check.one_of(self, negatives=("lists", "both"))


def views(cfg: Config, step: int) -> Views:
    """Ask for a negative of the caption, a bag, and a negative of each text of the bag."""
    lists = WordLists.parse(cfg.words)
    fitting = cfg.lists == "fitting"
    rules: tuple[Rule, Rule] = (lists.rule, lists.rule_of_text) if fitting else (lists.rule_any, lists.rule_any)
    if cfg.negatives == "both":
        rules = partial(masked_words.either, rules[0]), partial(masked_words.either_of_dense, rules[1])
    return Views(negatives=rules[:1], groups=(dense_texts.bag(cfg.bag, rules[1]),), caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return contrast, negative, MIL and bag terms as weighted scalars, without those of weight 0."""
    negatives = (f.negative_BKD[:, :1], f.mask_BK[:, :1])
    terms = {"negclip": losses.negclip(f.image_BD, f.text_BD, *negatives, f.scale)}
    if cfg.lambda_s_neg:
        terms["s_neg"] = cfg.lambda_s_neg * losses.s_neg(f.image_BD, f.text_BD, *negatives, f.scale)
    if cfg.lambda_mil:
        terms["mil"] = cfg.lambda_mil * losses.mil(f.image_BD, f.positive_BPD, f.scale)
    if cfg.lambda_bag:
        terms["bag"] = cfg.lambda_bag * bag_negatives(f)
    return terms


def bag_negatives(f: Features) -> Tensor:
    """Return −log of the bag's share against the bag and its negatives: LSE(own ∪ negatives) − LSE(own)."""
    own_BM = losses.candidate_scores(f.image_BD, f.text_BD, f.positive_BPD, f.scale)[:, 1:]
    wrong_BM = losses.candidate_scores(f.image_BD, f.text_BD, f.negative_BKD[:, 1:], f.scale)[:, 1:]
    wrong_BM = wrong_BM.masked_fill(~f.mask_BK[:, 1:], -torch.inf)
    return (torch.cat([own_BM, wrong_BM], dim=1).logsumexp(1) - own_BM.logsumexp(1)).mean()

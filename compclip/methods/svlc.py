"""SVLC, TSVLC after its code: structured concepts taught by texts alone (Doveh et al., CVPR 2023, arXiv:2211.11733).

B images, K negatives, D dim. `lists` (R) replaces a word by another of its list (there are five lists), `masked` (L) by
a word of a masked language model; `both` (R+L) chooses by a coin. +Pos adds the analogy term on a rewritten caption. On
several processes, the released program loses the negatives on their way to the contrast, which is then plain CLIP. The
other terms then weigh as many times as there are processes (four). Set `negatives_in_contrastive: false` and weights of
4 for this. Its analogy term uses only each process's own rewrites, here those of all.

Departures: one whole word is replaced, at its position (released: every occurrence, also within other words), from a
list that has a word of the caption.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from compclip.base.ablation_parts import part
from compclip.interface.views import Views
from compclip.methods import _check
from compclip.text import masked_words, stored_texts
from compclip.text.text_groups import Rule
from compclip.text.wordlists import WordListConfig, WordLists
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True
NEGATIVES = ("lists", "masked", "both", "none")


@dataclass(frozen=True)
class Config(WordListConfig, _check.CaptionConfig):
    lambda_s_neg: float = part(1.0, off=0.0, of=("negatives",))
    lambda_analogy: float = part(0.0, off=0.0)  # 1 in +Pos
    negatives: str = part("lists", off="none")  # R; "both": R+L; "masked": only L; "none": only +Pos
    negatives_in_contrastive: bool = part(True, off=False, of=("negatives",))  # true: as released, on one process

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.at_least(self, 0, "lambda_s_neg", "lambda_analogy")
        _check.one_of(self, negatives=NEGATIVES)


def _rules(cfg: Config) -> tuple[Rule, ...]:
    lists = WordLists.parse(cfg.words)
    rule = lists.rule if cfg.lists == "fitting" else lists.rule_any
    both = partial(masked_words.either, rule)
    rules: dict[str, Rule] = {"lists": rule, "masked": masked_words.any_word, "both": both}
    return (rules[cfg.negatives],) if cfg.negatives in rules else ()


def views(cfg: Config, step: int) -> Views:
    """Ask for a negative per caption, and for data.<name>.texts.paraphrase if the analogy term is on."""
    positives = (stored_texts.paraphrase,) if cfg.lambda_analogy else ()
    return Views(negatives=_rules(cfg), positives=positives, caption=cfg.caption)


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return contrast, negative and analogy term as weighted scalars, without those of weight 0."""
    negatives = (f.negative_BKD, f.mask_BK)
    if cfg.negatives_in_contrastive:
        terms = {"negclip": losses.negclip(f.image_BD, f.text_BD, *negatives, f.scale)}
    else:
        terms = {"clip": losses.clip(f.image_BD, f.text_BD, f.scale)}
    if cfg.lambda_s_neg:
        terms["s_neg"] = cfg.lambda_s_neg * losses.s_neg(f.image_BD, f.text_BD, *negatives, f.scale)
    if cfg.lambda_analogy:
        rewrites = (f.positive_BPD, f.positive_mask_BP)
        terms["analogy"] = cfg.lambda_analogy * losses.analogy(f.image_BD, f.text_BD, *rewrites, f.scale)
    return terms

"""CLIC: compositionally-aware learning in CLIP (Peleg et al., NeurIPS 2025, arXiv:2505.24424), Sec. 3.

B composites u, l = 1 … `positives` captions p_l of each, one negative n, D dim. Even steps train on composites; odd
steps are plain CLIP on single images.

Departures: `uni_norm` is squared as in the released code (Eq. 6 is not). If the captions of a composite have no two
words to exchange, it has no negative and is left out of Eq. 5. A picture is never its own partner (released: it may
be).

As released: `restart`, `ends`, `statistics`, and `data.<name>.openings`; by default none of them is.

Ablations (Table 10): C1 positives 1, lambda_s_neg 0, lambda_uni 0, alternate false; C2 adds lambda_s_neg; C3 positives
4; C4 lambda_uni; C5 alternate. B1–B3 are C1–C3 with composites false; B4 is B3 with alternate. If a caption has only
one sentence, this sentence is also p3 and later ones; `data.<name>.min_sentences` leaves such pictures out (B.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.base.ablation_parts import part
from compclip.interface.views import Composite, Views, step_in_epoch
from compclip.methods import _check
from compclip.methods._parts import captions, mean_over, uni
from compclip.text import composite_captions, sentences
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config:
    lambda_cont: float = 0.5  # Eq. 7
    lambda_s_neg: float = part(0.5, off=0.0)  # Eq. 7
    lambda_uni: float = part(1.0, off=0.0, of=("composites",))  # Eq. 7
    positives: int = part(4, off=1, lambda_uni=0.0)  # p1 … p4 (Table 13: 1 to 5)
    uni_norm: str = "squared"  # the released code; "l2" is Eq. 6
    composites: bool = part(True, off=False, lambda_uni=0.0)  # false: single pictures, p2 = p1, swaps within p1 (B1–B4)
    partner: str = "random"  # "common_noun": its first sentence shares a noun (B.4, Table 6)
    alternate: bool = part(True, off=False)  # every second step is plain CLIP (C5, B4)
    restart: bool = False  # true: each epoch begins with a composite, as in the released code
    ends: str = "kept"  # full stops; "clic", as released: none after a single sentence, each in a composite
    statistics: str = "own"  # "imagenet", as released: normalise composites by ImageNet's mean and deviation

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "lambda_cont", "lambda_s_neg", "lambda_uni")
        _check.at_least(self, 1, "positives")
        _check.one_of(
            self,
            uni_norm=("squared", "l2"),
            ends=sentences.JOINS,
            statistics=("own", "imagenet"),
            partner=("random", "common_noun"),
        )
        fault = f"lambda_uni={self.lambda_uni}: compares p1 and p2; set it to 0 with positives=1"
        _check.refuse(self.lambda_uni and self.positives < 2, fault)


def views(cfg: Config, step: int) -> Views:
    """Ask for composites with captions and a negative, or for single images with a sentence; in lower case."""
    if plain(cfg, step):
        return Views(caption="first", lowercase=True, ends=cfg.ends)
    partner = cfg.partner if cfg.composites else ""
    statistics = "imagenet" if cfg.composites and cfg.statistics == "imagenet" else ""
    return Views(
        composite=Composite(cfg.positives, composite_captions.compose, partner),
        statistics=statistics,
        caption="first",
        lowercase=True,
        ends=cfg.ends,
    )


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the terms of Eq. 7; on plain steps, the term of Eq. 1 with weight 1.

    All are weighted scalars; terms of weight 0 are left out.
    """
    if plain(cfg, step):
        return {"clip": losses.clip(f.image_BD, f.text_BD, f.scale)}
    terms = {"cont": cfg.lambda_cont * cont(f)}
    if cfg.lambda_s_neg:
        terms["s_neg"] = cfg.lambda_s_neg * s_neg(f)
    if cfg.lambda_uni:
        terms["uni"] = cfg.lambda_uni * uni(f, cfg.uni_norm)  # Eq. 6
    return terms


def plain(cfg: Config, step: int) -> bool:
    """Return whether a step, counted from 0, is plain CLIP; the first step has composites."""
    return cfg.alternate and (step_in_epoch(step) if cfg.restart else step) % 2 == 1


def cont(f: Features) -> Tensor:
    """Return Eq. 4: the contrast of images and captions p_l of the same l, mean over l."""
    return mean_over(captions(f), lambda p_BD: losses.clip(f.image_BD, p_BD, f.scale))


def s_neg(f: Features) -> Tensor:
    """Return Eq. 5: the contrast of each p_l with the negative of its own image, mean over l."""
    return mean_over(captions(f), lambda p_BD: losses.s_neg(f.image_BD, p_BD, f.negative_BKD, f.mask_BK, f.scale))

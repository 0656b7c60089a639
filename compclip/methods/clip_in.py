"""CLIP-IN: edited pictures as hard negatives, and long captions (Wang et al., NeurIPS 2025, arXiv:2508.02329).

B images v with long captions t and short ones, edited captions t' and edited images v' that match these, D dim. The
loss has three terms: for short captions, for long ones, and for edited pairs, where each of v, v', t and t' is also
contrasted with its own hard negative. This follows the authors' page (tommmmywangzt1118/VITRIX-CLIPIN at bfd90fa,
img/overview.png and img/hard_negative.png); the paper was not available, and the program there only evaluates. Each
NegCLIP loss is the mean of its two directions, as in CLIP. According to its tables, OpenAI's ViT-L/14, DFN's ViT-H/14
and SigLIP2 were trained on UltraEdit's 4 million pairs and 18 million pictures with long captions; learning rate and
batch size are not given (experiments/grids/clip_in_released.yaml).

`rotary` gives the text tower rotary positions (`compclip.model.rotary_text`), for texts longer than the backbone's. Not
implemented: stage 1, which distils the tower first (there is no program for it, and its loss is only a name in Fig. 1).
So training begins with pretrained weights at positions that they have not seen.

Departures: edited pairs belong to the samples that have captions (theirs: to a separate data set), and a sample without
an edit is left out of the third term; the short caption is the first sentence of the long one (theirs: the alt-text),
and the edited one with `edited: first`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import torch
from compclip.interface.views import Views
from compclip.methods import _check
from compclip.text import sentences, stored_texts
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features
    from compclip.model.clip_model import ClipModel

TRAINS = True


@dataclass(frozen=True)
class Config:
    lambda_long: float = part(1.0, off=0.0)  # L_long; Fig. 1: the three terms are added
    lambda_negative: float = part(1.0, off=0.0)  # L_HN
    symmetric: bool = part(True, off=False, of=("lambda_negative",))  # also from texts to images; false: as TripletCLIP
    edited: str = "caption"  # the source of texts.negative; "first": the caption's first sentence
    rotary: int = 0  # number of rotary positions that replace the text tower's learnt ones; 0: keep those

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "lambda_long", "lambda_negative", "rotary")
        if self.rotary:
            _check.at_least(self, 3, "rotary")
        _check.one_of(self, edited=("caption", "first"))


def adapt(cfg: Config, model: ClipModel, seed: int) -> None:
    """Replace the text tower's positions by rotary ones, if `rotary` asks for it."""
    if cfg.rotary:
        from compclip.model import rotary_text

        rotary_text.convert_tower(model, cfg.rotary)


def views(cfg: Config, step: int) -> Views:
    """Ask for the first sentence, an edited caption and its picture (data.<name>.texts.negative, .negative_images)."""
    edits = int(cfg.lambda_negative > 0)
    return Views(
        negatives=(stored_texts.first_negative,) * edits,
        positives=(sentences.first_of_several,),
        negative_images=edits,
        caption="full",
    )


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the short, long and hard-negative terms as weighted scalars, without those of weight 0."""
    short_BD = losses.first_valid(f.positive_BPD, f.positive_mask_BP, f.text_BD)
    terms = {"short": losses.clip(f.image_BD, short_BD, f.scale)}
    if cfg.lambda_long:
        terms["long"] = cfg.lambda_long * losses.clip(f.image_BD, f.text_BD, f.scale)
    if cfg.lambda_negative:
        source_BD = short_BD if cfg.edited == "first" else f.text_BD
        terms["negative"] = cfg.lambda_negative * hard_negatives(f, source_BD, cfg.symmetric)
    return terms


def hard_negatives(f: Features, text_BD: Tensor, symmetric: bool) -> Tensor:
    """Return L_HN: images choose between both captions, and texts between both images of an edited pair; summed."""
    image_BD = f.image_BD
    pictures = f.named["negative_images"]
    edited_image_BD = pictures.values[:, 0]
    edited_text_BD = f.negative_BKD[:, 0]
    whole_B = pictures.mask[:, 0] & f.mask_BK[:, 0]
    terms = [(image_BD, text_BD, edited_text_BD), (edited_image_BD, edited_text_BD, text_BD)]
    if symmetric:
        terms += [(text_BD, image_BD, edited_image_BD), (edited_text_BD, edited_image_BD, image_BD)]
    return sum((_told_apart(*term, f.scale, whole_B) for term in terms), f.scale * 0)


def _told_apart(query_BD: Tensor, key_BD: Tensor, foil_BD: Tensor, scale: Tensor, valid_B: Tensor) -> Tensor:
    """Return NegCLIP's loss over valid rows: from queries to keys and foils, and from keys to queries."""
    key_ND = torch.cat([key_BD, foil_BD])
    valid_N = torch.cat([valid_B, valid_B])
    forth = losses.matching_of(query_BD, key_ND, scale, valid_B, valid_N)
    return (forth + losses.matching_of(key_BD, query_BD, scale, valid_B, valid_B)) / 2

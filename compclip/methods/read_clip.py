"""READ-CLIP: reconstruction and alignment of text descriptions (Kwon et al., NeurIPS 2025, arXiv:2510.16540), Sec. 3.

B images, K negatives, L tokens of a target, D dim. A decoder reconstructs another caption of the picture from the
embedding of the caption. An alignment term contrasts a caption with another wording of it. `decoder` names a frozen T5,
as published; without it a small decoder is trained too. The embedding is the text tower's unit vector, as in the paper;
with `reads: state` it is the state before the projection, as released.

Departures: missing negatives are left out of the softmax (released: they are the empty text); the frozen decoder has no
dropout.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.interface.views import Target, Views, Widths
from compclip.methods import _check
from compclip.text import stored_texts, swap
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor, nn

    from compclip.interface.features import Features

TRAINS = True
EXAMPLE = "google/t5-v1_1-large"  # the published decoder


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    lambda_reconstruct: float = part(0.1, off=0.0)  # alpha
    lambda_align: float = part(0.5, off=0.0)  # beta
    align: ClassVar[str] = "released"  # the rewritten caption is the query for the originals
    decoder: str = ""  # folder of a T5 with its tokenizer; "": a small decoder that is trained too
    reads: str = "unit"  # input of the decoder; "state": the end token's state before the projection, as released
    negatives: ClassVar[int] = 3  # negatives per caption, drawn independently
    swap: str = "negclip"  # their rule, as in negclip; "read_clip": the five kinds in its program

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "lambda_reconstruct", "lambda_align")
        _check.one_of(self, swap=swap.RULES, reads=("unit", "state"))


def views(cfg: Config, step: int) -> Views:
    """Ask for negatives, another caption to align with, and one to reconstruct."""
    target = Target(cfg.decoder or "own") if cfg.lambda_reconstruct else None
    return Views(
        negatives=(swap.RULES[cfg.swap],) * cfg.negatives,
        groups=(stored_texts.other_wordings(1),) if cfg.lambda_align else (),
        target=target,
        raw_captions=target is not None and cfg.reads == "state",
        caption=cfg.caption,
    )


def heads(cfg: Config, widths: Widths) -> nn.Module:
    """Return the decoder, with the map from embeddings to its input."""
    from compclip.train import decoders  # imports torch

    width = widths.raw_text if cfg.reads == "state" else widths.joint
    return decoders.build_decoder(cfg.decoder, replace(widths, joint=width))


def helpers(cfg: Config) -> dict[str, str]:
    """Return the folder of the T5, if there is one."""
    return {cfg.decoder: f"`hf download {EXAMPLE} --local-dir {cfg.decoder}`"} if cfg.decoder else {}


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the contrast with the batch's negatives, reconstruction and alignment as weighted scalars.

    A term of weight 0 is left out.
    """
    terms = {"negclip": losses.negclip(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)}
    if cfg.lambda_reconstruct:
        terms["reconstruct"] = cfg.lambda_reconstruct * reconstruct(f, cfg)
    if cfg.lambda_align:
        terms["align"] = cfg.lambda_align * align(f)
    return terms


def reconstruct(f: Features, cfg: Config) -> Tensor:
    """Return −log p of another caption's tokens given the embedding of this one, mean over all tokens."""
    from compclip.train import decoders

    text_BD = f.named["raw_captions"].values if cfg.reads == "state" else f.text_BD
    return -decoders.log_likelihood(f.heads, text_BD, f.named["target"].values)


def align(f: Features) -> Tensor:
    """Contrast each caption's other wording with the captions of the batch, over complete pairs."""
    other_BD = f.positive_BPD[:, 0]
    there_B = f.positive_mask_BP[:, 0]
    return losses.matching_of(other_BD, f.text_BD, f.scale, there_B, there_B)

"""SuperCLIP: CLIP with simple classification supervision (Zhao et al., NeurIPS 2025, arXiv:2512.14480), Sec. 3.

B images, N patches, L positions of a caption, V words of the tokenizer, D dim. Besides CLIP's contrast, a linear layer
predicts the words of the caption from the mean of the patches. The loss is the cross entropy with the caption's
distinct words, each weighted by its inverse frequency in the batches so far. The layer is not part of the finished
model. The authors trained from scratch, on 512 million pairs of DataComp-1B
(experiments/grids/superclip_released.yaml).

Departures: patches are those of the joint space (released: before the projection); padding is no word (released: it
counts as one in each caption that does not fill the context, with hardly any weight if most do not).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import torch
from compclip.interface.views import Target, Views, Widths
from compclip.methods import _check
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor, nn

    from compclip.interface.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    lambda_words: float = part(1.0, off=0.0)  # the two terms are summed: open_clip/loss.py
    vocabulary: int = 49408  # at least the words of the backbone's tokenizer; CLIP's

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "lambda_words")
        _check.at_least(self, 1, "vocabulary")


def views(cfg: Config, step: int) -> Views:
    """Ask for the caption's tokens as a target, and for patches, if the term is on."""
    reads = cfg.lambda_words > 0
    return Views(target=Target(is_shown=True) if reads else None, tokens=reads, caption=cfg.caption)


def heads(cfg: Config, widths: Widths) -> nn.Module | None:
    """Return layer norm and linear layer. Raises UserError for a tokenizer with more words than `vocabulary`."""
    from torch import nn

    if not cfg.lambda_words:
        return None
    fault = f"vocabulary={cfg.vocabulary}: the backbone's tokenizer has {widths.vocabulary} words; give that"
    _check.refuse(widths.vocabulary > cfg.vocabulary, fault)
    linear = nn.Linear(widths.joint, cfg.vocabulary)
    nn.init.normal_(linear.weight, std=widths.joint**-0.5)
    nn.init.zeros_(linear.bias)
    return nn.Sequential(nn.LayerNorm(widths.joint), linear)


def memory(cfg: Config) -> dict[str, Tensor]:
    """Return the sums at the start: of the share of captions with each word over all batches, and of batches."""
    size = cfg.vocabulary if cfg.lambda_words else 0
    return {"frequency_V": torch.zeros(size, dtype=torch.float64), "batches": torch.zeros((), dtype=torch.float64)}


def remember(f: Features, cfg: Config) -> dict[str, Tensor]:
    """Return these sums with this batch added."""
    if not cfg.lambda_words:
        return dict(f.memory)
    return counted(f, words_of(f, cfg.vocabulary))


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return CLIP's contrast and the classification of words as weighted scalars, without terms of weight 0."""
    terms = {"clip": losses.clip(f.image_BD, f.text_BD, f.scale)}
    if cfg.lambda_words:
        terms["words"] = cfg.lambda_words * classify(f, cfg)
    return terms


def classify(f: Features, cfg: Config) -> Tensor:
    """Return the cross entropy of words predicted from the patches with the caption's words, mean over images."""
    word_BV = words_of(f, cfg.vocabulary)
    seen = counted(f, word_BV)
    B = len(word_BV)
    weight_V = ((seen["batches"] + 1 / B) / (seen["frequency_V"] + 1 / B)).log()
    weight_BV = word_BV * weight_V
    share_BV = weight_BV / weight_BV.abs().sum(dim=1, keepdim=True).clamp_min(1e-12)
    logits_BV = f.heads(losses.mean_patches(f.patch_BND).to(f.heads[0].weight.dtype))
    return losses.soft_cross_entropy(logits_BV, share_BV)


def words_of(f: Features, vocabulary: int) -> Tensor:
    """Return which words each caption has, [B, V], as 1 or 0 in float64; padding is not a word."""
    target_BL = f.named["target"].values
    word_BV = torch.zeros(len(target_BL), vocabulary + 1, dtype=torch.float64, device=target_BL.device)
    word_BV.scatter_(1, target_BL.where(target_BL >= 0, vocabulary), 1.0)
    return word_BV[:, :vocabulary]


def counted(f: Features, word_BV: Tensor) -> dict[str, Tensor]:
    """Return the memory with this batch added."""
    frequency_V = f.memory["frequency_V"].to(word_BV) + word_BV.mean(dim=0)
    return {"frequency_V": frequency_V, "batches": f.memory["batches"].to(word_BV) + 1}

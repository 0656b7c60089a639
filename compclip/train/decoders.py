"""Heads that read a text back out of its embedding (READ-CLIP): a small decoder of our own, or a frozen T5's.

B texts, L positions of a target (padded with -1), V words, W width, D dim.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compclip.interface.views import Widths
from compclip.model import t5

PADDING = -1


def build_decoder(source: str, widths: Widths) -> nn.Module:
    """Return a decoder from the folder of a T5, or the small one where none is named."""
    return T5Decoder(source, widths.joint) if source else SmallDecoder(widths)


def log_likelihood(head: nn.Module, text_BD: Tensor, target_BL: Tensor) -> Tensor:
    """Return the mean log p(y_l | y_<l, embedding) over all tokens of all targets: a scalar, 0 where there is none."""
    logits_BLV, wanted_BL = head(text_BD, target_BL)
    logits_NV = logits_BLV.flatten(0, 1)
    wanted_N = wanted_BL.flatten()
    nll = F.cross_entropy(logits_NV, wanted_N, ignore_index=PADDING, reduction="sum")
    return -nll / (wanted_N != PADDING).sum().clamp_min(1)


class SmallDecoder(nn.Module):
    """One layer that looks at the embedding as at a prompt of one position; words are told by their own vectors.

    It learns with the towers: what it can read out of an embedding is what they put there.
    """

    def __init__(self, widths: Widths, width: int = 64, heads: int = 2) -> None:
        super().__init__()
        self.project = nn.Linear(widths.joint, width, bias=False)
        self.word = nn.Embedding(widths.vocabulary, width)
        self.place = nn.Embedding(widths.context, width)
        self.layer = nn.TransformerDecoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.word.weight, std=width**-0.5)

    def forward(self, text_BD: Tensor, target_BL: Tensor) -> tuple[Tensor, Tensor]:
        """[B, L - 1, V] logits of each next token, and these tokens; targets begin with a start token."""
        before_BL = target_BL[:, :-1].clamp_min(0)
        next_BL = target_BL[:, 1:]
        L = before_BL.shape[1]
        x_BLW = self.word(before_BL) + self.place.weight[:L]
        causal_LL = torch.ones(L, L, dtype=torch.bool, device=x_BLW.device).triu(1)
        prompt_B1W = self.project(text_BD.to(x_BLW.dtype))[:, None]
        x_BLW = self.norm(self.layer(x_BLW, prompt_B1W, tgt_mask=causal_LL))
        return x_BLW @ self.word.weight.T, next_BL


class T5Decoder(nn.Module):
    """A frozen T5's decoder, for which a trained linear map makes an encoder output of one position (as published)."""

    def __init__(self, source: str, width: int) -> None:
        super().__init__()
        self.decoder = t5.load_decoder(source).eval().requires_grad_(False)
        self.project = nn.Linear(width, self.decoder.config.d_model, bias=False)

    def forward(self, text_BD: Tensor, target_BL: Tensor) -> tuple[Tensor, Tensor]:
        """[B, L, V] logits of each token of the targets, and these tokens."""
        seen_B1W = self.project(text_BD.to(self.project.weight.dtype))[:, None]
        wanted_BL = target_BL.masked_fill(target_BL == PADDING, -100)
        outputs = self.decoder(encoder_outputs=(seen_B1W,), labels=wanted_BL, use_cache=False)
        return outputs.logits, target_BL

    def train(self, mode: bool = True) -> T5Decoder:
        """Set the mode of the projection; the frozen decoder stays in evaluation mode."""
        super().train(mode)
        self.decoder.eval()
        return self

"""CLIP's text tower with rotary positions in the place of learnt ones, for longer texts (CLIP-IN).

`text_cfg.rotary` asks for it. Plain open_clip does not know the key and refuses such a folder. Queries and keys are
read as complex numbers, two neighbours as one, and turned by angles that grow with the position (Su et al. 2021,
arXiv:2104.09864). As in tommmmywangzt1118/VITRIX-CLIPIN (bfd90fa, eval/vitl/transformer_rope.py), values are not
turned, and the blocks have GELU whatever the image tower has.

B texts, T positions, W width, H heads, C numbers of a head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import open_clip
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compclip.base.errors import UserError
from compclip.model import class_tokens
from compclip.model.tokenizers import ClipTokenizer

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel, ClipModule

OPTION = "rotary"
BASE = 10000.0  # number i of C / 2 turns by BASE ** (-2 i / C) from one position to the next


def build_module(model_cfg: Mapping[str, Any]) -> ClipModule:
    """Build the module of a config with random weights, as `class_tokens.build_module`, with rotary positions."""
    text_cfg = dict(model_cfg["text_cfg"])
    is_rotary = text_cfg.pop(OPTION, False)
    clip = class_tokens.build_module({**model_cfg, "text_cfg": text_cfg})
    if is_rotary:
        _replace_positions(clip, clip.context_length)
    return clip


def convert_tower(model: ClipModel, positions: int) -> None:
    """Replace the learnt positions of a pretrained text tower by as many rotary ones as asked, in place.

    All other weights stay. Raises UserError for a text tower that is not CLIP's own.
    """
    if type(model.clip) is not open_clip.CLIP or not isinstance(model.tokenizer, ClipTokenizer | None):
        raise UserError(f"{OPTION}={positions}: only for a backbone with CLIP's own text tower; leave it out")
    _replace_positions(model.clip, positions)
    text_cfg = {**model.model_cfg["text_cfg"], OPTION: True, "context_length": positions}
    model.model_cfg["text_cfg"] = text_cfg
    if model.tokenizer is not None:  # none where a cost is estimated
        object.__setattr__(model, "tokenizer", ClipTokenizer(positions))


def _replace_positions(clip: Any, positions: int) -> None:
    """Give a text tower rotary positions, in place; its learnt ones become zeros that are not trained."""
    if type(clip) is not open_clip.CLIP:
        raise ValueError(f"text_cfg.{OPTION}: only for CLIP's own text tower, not {type(clip).__name__}")
    zeros_TW = clip.positional_embedding.detach().new_zeros(positions, clip.positional_embedding.shape[1])
    del clip.positional_embedding
    clip.register_buffer("positional_embedding", zeros_TW)
    clip.context_length = positions
    if clip.attn_mask is not None:
        clip.attn_mask = clip.attn_mask.new_full((positions, positions), float("-inf")).triu_(1)
    for block in clip.transformer.resblocks:
        block.attn.__class__ = RotaryAttention
        block.mlp.gelu = nn.GELU()


class RotaryAttention(nn.MultiheadAttention):
    """Self-attention whose queries and keys are turned by their positions."""

    def forward(  # type: ignore[override]
        self, query: Tensor, _key: Tensor, _value: Tensor, need_weights: bool = False, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Attend as nn.MultiheadAttention does with equal query, key and value; attention weights are not returned."""
        qkv_BT3W = F.linear(query, self.in_proj_weight, self.in_proj_bias)
        q_BHTC, k_BHTC, v_BHTC = qkv_BT3W.unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        y_BHTC = F.scaled_dot_product_attention(rotate(q_BHTC), rotate(k_BHTC), v_BHTC, attn_mask=attn_mask)
        return self.out_proj(y_BHTC.transpose(1, 2).flatten(2)), None


def rotate(x_BHTC: Tensor) -> Tensor:
    """Turn every two neighbouring numbers by an angle of their position, in float32 at least."""
    T, C = x_BHTC.shape[-2:]
    wide_BHTC = x_BHTC.to(torch.promote_types(x_BHTC.dtype, torch.float32))
    position_T = torch.arange(T, device=x_BHTC.device, dtype=wide_BHTC.dtype)
    exponent_I = torch.arange(0, C, 2, device=x_BHTC.device, dtype=wide_BHTC.dtype) / C
    angle_TI = position_T[:, None] * BASE**-exponent_I
    even_BHTI = wide_BHTC[..., ::2]
    odd_BHTI = wide_BHTC[..., 1::2]
    cos_TI = angle_TI.cos()
    sin_TI = angle_TI.sin()
    turned = torch.stack([even_BHTI * cos_TI - odd_BHTI * sin_TI, even_BHTI * sin_TI + odd_BHTI * cos_TI], dim=-1)
    return turned.flatten(-2).to(x_BHTC.dtype)

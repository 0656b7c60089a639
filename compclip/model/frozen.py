"""Embeddings alone, without slopes: what the towers of `model.towers` give, in about two thirds of the arithmetic.

B images or texts, N different tokens, T text positions, L text length, W width, H heads, D joint dim.

Texts share what they begin with: under a causal mask a token depends on those before it alone, so that texts in sorted
order need each different beginning once, and nothing is padded but the attention's own small products. Of the last
block only what is pooled is computed. On CPUs oneDNN multiplies (it is faster than what torch calls there by itself).

This is for open_clip's plain CLIP towers; others run as they are. Values differ from those of `model.towers` in the
last bits, as those of another batch size do.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compclip.base.lazy import open_clip
from compclip.model import towers

CACHE = 8 << 20  # bytes of a block's widest values that a core's caches hold well enough
ROOM = 1 << 30  # bytes of a model's weights that are held twice
ROWS = 1024  # for which weights are laid out
PACKS = "packed_weights"  # of a module meanwhile: the layout of a weight, by where that lies
SAME = nn.Identity()
SHORT = 32  # texts up to so many tokens are of one kind; beyond, those of up to 64, and the longest


def image(clip: nn.Module, image_B3HW: Tensor) -> Tensor:
    """Unit embeddings [B, D] of pictures."""
    visual = clip.visual
    if not _plain_picture_tower(visual):
        return towers.image(clip, image_B3HW)[0]
    x_BNW = visual._embeds(image_B3HW.to(visual.conv1.weight.dtype))
    B, N, _ = x_BNW.shape
    x_AW = x_BNW.flatten(0, 1)
    first_B = torch.arange(0, B * N, N, device=x_AW.device)
    *blocks, last = (_Block(block, clip) for block in visual.transformer.resblocks)
    for block in blocks:
        x_AW = block.rest(x_AW, block.attended(block.qkv(x_AW).unflatten(0, (B, N))).flatten(0, 1))
    q_BW, kv_A2W = last.queried(x_AW, first_B)
    pooled_BW = visual.ln_post(last.rest(x_AW[first_B], last.gathered(q_BW, kv_A2W.unflatten(0, (B, N)))))
    return F.normalize(pooled_BW if visual.proj is None else pooled_BW @ visual.proj, dim=-1)


def text(clip: nn.Module, text_BL: Tensor) -> Tensor:
    """Unit embeddings [B, D] of texts; those that begin alike should stand together (`order`)."""
    if not shares_beginnings(clip):
        return towers.text(clip, text_BL)[0]
    tree = beginnings(text_BL)
    x_NW = towers.embed_tokens(clip, tree.token_N, tree.position_N)
    *blocks, last = (_Block(block, clip) for block in clip.transformer.resblocks)
    for block in blocks:
        y_BTW = block.attended(_spread(block.qkv(x_NW), tree.node_BT), causal=True)
        x_NW = block.rest(x_NW, y_BTW.flatten(0, 1).index_select(0, tree.place_N))
    end_B = tree.node_BT.gather(1, tree.end_B[:, None])[:, 0]
    own_BT = torch.arange(tree.node_BT.shape[1], device=text_BL.device) <= tree.end_B[:, None]
    q_BW, kv_N2W = last.queried(x_NW, end_B)
    x_BW = last.rest(x_NW[end_B], last.gathered(q_BW, _spread(kv_N2W, tree.node_BT), own_BT))
    return F.normalize(towers.project(clip.ln_final(x_BW), clip.text_projection), dim=-1)


def batch_of_images(clip: nn.Module, size: int) -> int:
    """How many pictures the image tower takes best at once, `size` at most: on a CPU as many as its caches hold."""
    visual = clip.visual
    if next(clip.parameters()).device.type != "cpu" or not _plain_picture_tower(visual):
        return size
    return min(size, _fitting(visual.transformer, len(visual.positional_embedding)))


def batch_of_texts(clip: nn.Module, size: int) -> int:
    """The same of texts, each of some sixteen tokens."""
    if next(clip.parameters()).device.type != "cpu" or not shares_beginnings(clip):
        return size
    return min(size, _fitting(clip.transformer, 16) * 2)


def _fitting(transformer: nn.Module, tokens: int) -> int:
    widest = transformer.resblocks[0].mlp.c_fc.out_features
    return max(8, CACHE // (4 * widest * tokens))


def _spread(x_NW: Tensor, node_BT: Tensor) -> Tensor:
    """Each text's own [B, T, W] of what nodes share."""
    return x_NW.index_select(0, node_BT.flatten()).unflatten(0, node_BT.shape)


def parts(clip: nn.Module, ids_TL: Tensor, size: int) -> Iterator[Tensor]:
    """Rows of texts in batches that the text tower takes cheaply: by beginnings, or of equal token count.

    CLIP's end token has the largest id.
    """
    end_T = ids_TL.argmax(-1)
    if not shares_beginnings(clip):
        for end in end_T.unique().tolist():
            yield from (end_T == end).nonzero()[:, 0].split(size)
        return
    order_T = torch.from_numpy(np.lexsort(ids_TL.numpy().T[::-1]))
    kind_T = torch.bucketize(end_T[order_T], torch.tensor([SHORT - 1, 2 * SHORT - 1]))
    for kind in kind_T.unique().tolist():
        yield from order_T[kind_T == kind].split(size)


@contextmanager
def packing(clips: Sequence[nn.Module], room: int = ROOM) -> Iterator[None]:
    """Meanwhile the weights, which must not change, are laid out once for oneDNN and not by every batch.

    They are held twice then: only those of models that take no more than `room` bytes. Whether they are may change a
    last bit, so that it hangs on the model alone, and the layout on no batch.
    """
    for clip in clips:
        if sum(weight.nbytes for weight in clip.parameters()) <= room:
            setattr(clip, PACKS, {})
    try:
        yield
    finally:
        for clip in clips:
            vars(clip).pop(PACKS, None)


class Beginnings(NamedTuple):
    """The different beginnings of some texts: each is a node, the last token of it stands for it."""

    token_N: Tensor  # the token's id
    position_N: Tensor  # and its place in the text
    node_BT: Tensor  # of each text's positions; behind the end of a text any
    place_N: Tensor  # where a node stands first, counted through [B, T]
    end_B: Tensor  # the position of each text's end token


def beginnings(text_BL: Tensor) -> Beginnings:
    """What texts begin with, told from the text before each: sorted ones share the most."""
    end_B = text_BL.argmax(-1)
    T = int(end_B.max()) + 1
    text_BT, position_T = text_BL[:, :T], torch.arange(T, device=text_BL.device)
    new_BT = torch.ones_like(text_BT, dtype=torch.bool)
    new_BT[1:] = (text_BT[1:] != text_BT[:-1]).cumsum(1) > 0
    own_BT = position_T <= end_B[:, None]
    place_N = (new_BT & own_BT).flatten().nonzero()[:, 0]
    number_BT = torch.zeros_like(text_BT).flatten().index_fill_(0, place_N, 1).cumsum(0).sub_(1).view_as(text_BT)
    node_BT = torch.where(new_BT & own_BT, number_BT, 0).cummax(0).values
    return Beginnings(text_BT.flatten()[place_N], place_N % T, node_BT, place_N, end_B)


def shares_beginnings(clip: nn.Module) -> bool:
    """Whether the text tower is CLIP's own, causal, with its text at the end token."""
    if hasattr(clip, "text") or getattr(clip, "attn_mask", None) is None or clip.text_pool_type != "argmax":
        return False
    return _plain(clip.transformer)


def _plain_picture_tower(visual: nn.Module) -> bool:
    """Whether an image tower is open_clip's ViT with its picture at the class token."""
    is_vit = type(visual) is open_clip.transformer.VisionTransformer
    is_vit = is_vit and hasattr(visual, "_embeds")  # another version of open_clip may call it otherwise
    return is_vit and visual.attn_pool is None and visual.pool_type == "tok" and _plain(visual.transformer)


def _plain(transformer: nn.Module) -> bool:
    """Whether all blocks are open_clip's usual ones, without an adapter in them."""
    usual = open_clip.transformer.ResidualAttentionBlock
    blocks = getattr(transformer, "resblocks", ())
    return len(blocks) > 0 and all(type(block) is usual and _plain_block(block) for block in blocks)


def _plain_block(block: nn.Module) -> bool:
    attention, mlp = block.attn, block.mlp
    whole = type(attention) is nn.MultiheadAttention and attention.in_proj_weight is not None
    linear = all(type(module) in LINEAR for module in (mlp.c_fc, mlp.c_proj, getattr(attention, "out_proj", None)))
    return whole and linear and not hasattr(block, "ln_1_kv")


LINEAR: Sequence[type] = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)


@functools.cache
def _one_dnn() -> bool:
    """Whether torch has its products, which are no part of its public interface."""
    named = all(hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight"))
    return torch.backends.mkldnn.is_available() and named


class _Block:
    """The parts of an open_clip block."""

    def __init__(self, block: Any, clip: nn.Module) -> None:
        self._block, self._packs = block, getattr(clip, PACKS, None)

    def qkv(self, x_NW: Tensor) -> Tensor:
        """Queries, keys and values [N, 3W] of the attention."""
        attention = self._block.attn
        return self._linear(self._block.ln_1(x_NW), attention.in_proj_weight, attention.in_proj_bias)

    def attended(self, qkv_BT3W: Tensor, causal: bool = False) -> Tensor:
        """What the heads gather at all positions: [B, T, W], before the projection."""
        q, k, v = qkv_BT3W.unflatten(-1, (3, self._block.attn.num_heads, -1)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)

    def queried(self, x_NW: Tensor, row_B: Tensor) -> tuple[Tensor, Tensor]:
        """Queries [B, W] of some rows, and keys and values [N, 2W] of all."""
        attention, W = self._block.attn, x_NW.shape[-1]
        weight, bias, x_NW = attention.in_proj_weight, attention.in_proj_bias, self._block.ln_1(x_NW)
        return self._linear(x_NW[row_B], weight[:W], bias[:W]), self._linear(x_NW, weight[W:], bias[W:])

    def gathered(self, q_BW: Tensor, kv_BT2W: Tensor, own_BT: Tensor | None = None) -> Tensor:
        """What the heads gather for one query each, of its own positions: [B, W], before the projection."""
        heads = self._block.attn.num_heads
        k, v = kv_BT2W.unflatten(-1, (2, heads, -1)).permute(2, 0, 3, 1, 4)
        mask = None if own_BT is None else own_BT[:, None, None]
        q = q_BW.unflatten(-1, (heads, 1, -1))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).flatten(1)

    def rest(self, x_NW: Tensor, attended_NW: Tensor) -> Tensor:
        """The output from the input and what the heads gathered."""
        block, mlp = self._block, self._block.mlp
        x_NW = x_NW + block.ls_1(self._linear(attended_NW, block.attn.out_proj.weight, block.attn.out_proj.bias))
        hidden_NV = self._linear(block.ln_2(x_NW), mlp.c_fc.weight, mlp.c_fc.bias, mlp.gelu)
        return x_NW + block.ls_2(self._linear(hidden_NV, mlp.c_proj.weight, mlp.c_proj.bias))

    def _linear(self, x_NW: Tensor, weight_VW: Tensor, bias_V: Tensor | None, then: nn.Module = SAME) -> Tensor:
        """The product, and what comes `then` of each number: a GELU while it is in the cache."""
        if x_NW.device.type != "cpu" or x_NW.dtype != torch.float32 or not _one_dnn():
            return then(F.linear(x_NW, weight_VW, bias_V))
        if self._packs is not None:
            known = weight_VW.data_ptr(), weight_VW.shape
            if (packed := self._packs.get(known)) is None:
                packed = self._packs[known] = torch.ops.mkldnn._reorder_linear_weight(weight_VW, ROWS)
            weight_VW = packed
        fused = ("gelu", [], then.approximate) if type(then) is nn.GELU else ("none", [], "")
        made_NV = torch.ops.mkldnn._linear_pointwise(x_NW, weight_VW, bias_V, *fused)
        return made_NV if type(then) is nn.GELU else then(made_NV)

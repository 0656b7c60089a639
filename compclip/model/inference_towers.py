"""Embeddings without gradients: what `model.towers` gives, in about two thirds of the arithmetic.

B images or texts, N different tokens, T text positions, L text length, W width, H heads, D joint dim.

Texts share prefixes: under a causal mask a token depends only on those before it, so that each different prefix of
sorted texts is computed once, and only the attention's products are padded. Of the last block only the pooled position
is computed.

This is for open_clip's plain CLIP towers; others run as they are. Values differ from those of `model.towers` in the
last bits, as those of another batch size do.
"""

from __future__ import annotations

import copy
import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compclip.model import towers

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel, ClipModule


CACHE_BYTES = 8 << 20  # bytes of a block's widest values that a core's caches hold well enough
SHORT_TEXT = 16  # tokens; texts are grouped: up to this, up to twice this, up to four times this, longer


def encode_images(clip: ClipModule, image_B3HW: Tensor) -> Tensor:
    """Return unit embeddings [B, D] of pictures."""
    visual = clip.visual
    if not _is_plain_image_tower(visual):
        return towers.encode_images(clip, image_B3HW)[0]
    x_BNW = visual._embeds(image_B3HW.to(visual.conv1.weight.dtype))
    B, N, _ = x_BNW.shape
    x_AW = x_BNW.flatten(0, 1)
    first_B = torch.arange(0, B * N, N, device=x_AW.device)
    *blocks, last = map(_Block, visual.transformer.resblocks)
    for block in blocks:
        x_AW = block.finish(x_AW, block.attend_all(block.qkv(x_AW).unflatten(0, (B, N))).flatten(0, 1))
    x_BW = x_AW[first_B]
    pooled_BW = visual.ln_post(last.finish(x_BW, last.attend_one(x_BW, x_AW.unflatten(0, (B, N)))))
    return F.normalize(pooled_BW if visual.proj is None else pooled_BW @ visual.proj, dim=-1)


def encode_texts(clip: ClipModule, text_BL: Tensor) -> Tensor:
    """Return unit embeddings [B, D] of texts; texts with equal prefixes should be neighbours (see `text_batches`)."""
    if not shares_prefixes(clip):
        return towers.encode_texts(clip, text_BL)[0]
    tree = build_prefix_tree(text_BL)
    x_NW = towers.embed_tokens(clip, tree.token_N, tree.position_N)
    *blocks, last = map(_Block, clip.transformer.resblocks)
    for block in blocks:
        y_BTW = block.attend_all(_gather_positions(block.qkv(x_NW), tree.node_BT), causal=True)
        x_NW = block.finish(x_NW, y_BTW.flatten(0, 1).index_select(0, tree.first_position_N))
    end_B = tree.node_BT.gather(1, tree.end_B[:, None])[:, 0]
    own_BT = torch.arange(tree.node_BT.shape[1], device=text_BL.device) <= tree.end_B[:, None]
    x_BW = x_NW[end_B]
    x_BW = last.finish(x_BW, last.attend_one(x_BW, _gather_positions(x_NW, tree.node_BT), own_BT))
    return F.normalize(towers.project(clip.ln_final(x_BW), clip.text_projection), dim=-1)


def embed_images(model: ClipModel, image_B3HW: Tensor) -> Tensor:
    """Return the unit vectors [B, D] by which pictures are compared: the tower's, or what the head makes of them."""
    head = model.head
    if head is None or not head.needs_tokens:
        image_BD = encode_images(model.clip, image_B3HW)
        patch_BND = None
    else:
        image_BD, patch_BND = towers.encode_images(model.clip, image_B3HW, tokens=True)
    return image_BD if head is None else head.map_images(image_BD, patch_BND)


def embed_texts(model: ClipModel, text_BL: Tensor) -> Tensor:
    """Return the unit vectors [B, D] by which texts are compared; behind each that of a long caption, if it has one."""
    head = model.head
    if head is not None and head.reads_raw:
        vector_BD = towers.encode_texts(model.clip, text_BL, raw=True)[0]
        text_BD, raw_BW = vector_BD.split([head.options["width"], head.options["raw_width"]], dim=-1)
        return torch.cat([text_BD, head.map_long(raw_BW)], dim=-1)
    if head is None or not head.needs_tokens:
        text_BD = encode_texts(model.clip, text_BL)
        return text_BD if head is None else head.map_texts(text_BD)
    text_BD, token_BTD = towers.encode_texts(model.clip, text_BL, tokens=True)
    assert token_BTD is not None
    return head.map_texts(
        text_BD, token_BTD, towers.mask_own_tokens(text_BL, token_BTD.shape[1], model.tokenizer.layout)
    )


@contextmanager
def evaluation_mode(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Set evaluation mode and full float32 on any device; restore the previous settings afterwards.

    Compiled blocks run uncompiled, because they would be compiled again for another mode.
    """
    modes = {layer: layer.training for module in modules for layer in module.modules()}
    compiled_calls = {layer: layer._compiled_call_impl for layer in modes if layer._compiled_call_impl}
    for module in modules:
        module.eval()
    for layer in compiled_calls:
        layer._compiled_call_impl = None
    try:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            yield
    finally:
        for layer, mode in modes.items():
            layer.training = mode
        for layer, compiled_call in compiled_calls.items():
            layer._compiled_call_impl = compiled_call


def image_batch_size(clip: ClipModule, size: int) -> int:
    """Return the fastest batch size for the image tower, at most `size`: on a CPU what its caches hold."""
    visual = clip.visual
    if next(clip.parameters()).device.type != "cpu" or not _is_plain_image_tower(visual):
        return size
    return min(size, _sequences_in_cache(visual.transformer, len(visual.positional_embedding)))


def text_batch_size(clip: ClipModule, size: int) -> int:
    """Return the fastest batch size for the text tower, at most `size`, for texts of about sixteen tokens."""
    if next(clip.parameters()).device.type != "cpu" or not shares_prefixes(clip):
        return size
    return min(size, _sequences_in_cache(clip.transformer, 16) * 2)


def _sequences_in_cache(transformer: Any, tokens: int) -> int:
    widest = transformer.resblocks[0].mlp.c_fc.out_features
    return max(8, CACHE_BYTES // (4 * widest * tokens))


def _gather_positions(x_NW: Tensor, node_BT: Tensor) -> Tensor:
    """Return [B, T, W]: for each position of each text the value of its node."""
    return x_NW.index_select(0, node_BT.flatten()).unflatten(0, node_BT.shape)


def text_batches(clip: ClipModule, ids_TL: Tensor, size: int) -> Iterator[Tensor]:
    """Yield the numbers of texts in batches that are cheap for the text tower: sorted, or of equal token count.

    CLIP's end token has the largest id.
    """
    end_T = ids_TL.argmax(-1)
    if not shares_prefixes(clip):
        for end in end_T.unique().tolist():
            yield from (end_T == end).nonzero()[:, 0].split(size)
        return
    order_T = torch.from_numpy(np.lexsort(ids_TL.numpy().T[::-1]))
    longest = torch.tensor([SHORT_TEXT, 2 * SHORT_TEXT, 4 * SHORT_TEXT])
    kind_T = torch.bucketize(end_T[order_T], longest - 1)
    for kind in kind_T.unique().tolist():
        yield from order_T[kind_T == kind].split(size)


class PrefixTree(NamedTuple):
    """The different prefixes of some texts; each is a node, represented by its last token."""

    token_N: Tensor  # the token's id
    position_N: Tensor  # its position in the text
    node_BT: Tensor  # the node of each position; arbitrary behind the end of a text
    first_position_N: Tensor  # a node's first position, as an index into the flattened [B, T]
    end_B: Tensor  # the position of each text's end token


def build_prefix_tree(text_BL: Tensor) -> PrefixTree:
    """Return the prefixes of texts; each text is compared with the one before, so that sorted texts share the most."""
    end_B = text_BL.argmax(-1)
    T = int(end_B.max()) + 1
    text_BT = text_BL[:, :T]
    position_T = torch.arange(T, device=text_BL.device)
    new_BT = torch.ones_like(text_BT, dtype=torch.bool)
    new_BT[1:] = (text_BT[1:] != text_BT[:-1]).cumsum(1) > 0
    own_BT = position_T <= end_B[:, None]
    first_position_N = (new_BT & own_BT).flatten().nonzero()[:, 0]
    number_BT = (
        torch.zeros_like(text_BT).flatten().index_fill_(0, first_position_N, 1).cumsum(0).sub_(1).view_as(text_BT)
    )
    node_BT = torch.where(new_BT & own_BT, number_BT, 0).cummax(0).values
    return PrefixTree(text_BT.flatten()[first_position_N], first_position_N % T, node_BT, first_position_N, end_B)


def shares_prefixes(clip: ClipModule) -> bool:
    """Return whether the text tower is CLIP's own: causal, pooled at the end token."""
    if hasattr(clip, "text") or getattr(clip, "attn_mask", None) is None or clip.text_pool_type != "argmax":
        return False
    return _has_plain_blocks(clip.transformer)


def _is_plain_image_tower(visual: Any) -> bool:
    """Return whether an image tower is open_clip's ViT, pooled at the class token."""
    import open_clip

    is_vit = type(visual) is open_clip.transformer.VisionTransformer
    is_vit = is_vit and hasattr(visual, "_embeds")  # another version of open_clip may call it otherwise
    return is_vit and visual.attn_pool is None and visual.pool_type == "tok" and _has_plain_blocks(visual.transformer)


def _has_plain_blocks(transformer: Any) -> bool:
    """Return whether all blocks are open_clip's usual ones without an adapter."""
    import open_clip

    blocks = getattr(transformer, "resblocks", ())
    return len(blocks) > 0 and all(
        type(block) is open_clip.transformer.ResidualAttentionBlock
        and type(block.attn) is nn.MultiheadAttention
        and block.attn.in_proj_weight is not None
        and isinstance(block.attn.out_proj, nn.Linear)
        and not hasattr(block, "ln_1_kv")
        for block in blocks
    )


class _Block:
    """The parts of an open_clip block."""

    def __init__(self, block: Any) -> None:
        self._block = block

    def qkv(self, x_NW: Tensor) -> Tensor:
        """Return the attention's queries, keys and values [N, 3W]."""
        attention = self._block.attn
        return F.linear(self._block.ln_1(x_NW), attention.in_proj_weight, attention.in_proj_bias)

    def attend_all(self, qkv_BT3W: Tensor, causal: bool = False) -> Tensor:
        """Return the attention's output [B, T, W] at all positions, before the output projection."""
        q, k, v = qkv_BT3W.unflatten(-1, (3, self._block.attn.num_heads, -1)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)

    def attend_one(self, x_BW: Tensor, x_BTW: Tensor, own_BT: Tensor | None = None) -> Tensor:
        """Return the attention's output [B, W] for one position each over its own ones, before the output projection.

        No key and no value is computed: q·(K x) = (q K)·x, and the mean of values is the value of the mean. The keys'
        bias adds the same to all scores of a query, and so changes nothing.
        """
        attention = self._block.attn
        query_WW, key_WW, value_WW = attention.in_proj_weight.chunk(3)
        query_bias_W, _, value_bias_W = attention.in_proj_bias.chunk(3)
        per_head = (attention.num_heads, -1)
        q_BHD = F.linear(self._block.ln_1(x_BW), query_WW, query_bias_W).unflatten(-1, per_head)
        query_BHW = torch.einsum("bhd,hdw->bhw", q_BHD, key_WW.unflatten(0, per_head))
        x_BTW = self._block.ln_1(x_BTW)
        mask = None if own_BT is None else own_BT[:, None]
        scale = q_BHD.shape[-1] ** -0.5
        mean_BHW = F.scaled_dot_product_attention(query_BHW, x_BTW, x_BTW, attn_mask=mask, scale=scale)
        value_BHD = torch.einsum("bhw,hdw->bhd", mean_BHW, value_WW.unflatten(0, per_head))
        return value_BHD.flatten(1).add_(value_bias_W)  # in place, and so of the product's type under autocast

    def finish(self, x_NW: Tensor, attended_NW: Tensor) -> Tensor:
        """Return the block's output from its input, which it overwrites, and the attention's output."""
        block = self._block
        _add_linear(x_NW, attended_NW, block.attn.out_proj, block.ls_1)
        hidden_NH = block.mlp.gelu(block.mlp.c_fc(block.ln_2(x_NW)))
        return _add_linear(x_NW, hidden_NH, block.mlp.c_proj, block.ls_2)


def _add_linear(x_NW: Tensor, input_NI: Tensor, linear: nn.Linear, layer_scale: nn.Module) -> Tensor:
    """Add a linear layer's output to `x_NW` in place: the product's own sum saves two passes over memory.

    Under autocast the product is of another type, and is added as it is.
    """
    if isinstance(layer_scale, nn.Identity) and input_NI.dtype == linear.weight.dtype:
        return x_NW.add_(linear.bias).addmm_(input_NI, linear.weight.t())
    return x_NW.add_(layer_scale(linear(input_NI)))


# --- copies of models, a set for each device ------------------------------------------------------------------------
# Copies of models, one set a device, of which a thread takes a free one for a batch.
#
# The content of a batch does not depend on the number of devices: on devices of one kind the results are those of
# one.


T = TypeVar("T")


class ReplicaPool(Generic[T]):
    """Equal replicas for the threads of a pool; a thread waits where all are taken."""

    def __init__(self, replicas: Sequence[T], threads: int = 0) -> None:
        """Offer each replica to one thread at a time, or to equally many, so that none of `threads` waits."""
        self.replicas = replicas
        self._free: queue.SimpleQueue[T] = queue.SimpleQueue()
        for _ in range(max(1, -(-threads // len(replicas)))):
            for replica in replicas:
                self._free.put(replica)

    @contextmanager
    def take(self) -> Iterator[T]:
        """Give a free replica, which is free again afterwards."""
        replica = self._free.get()
        try:
            yield replica
        finally:
            self._free.put(replica)


def copy_models(models: Sequence[ClipModel], devices: Sequence[str]) -> list[list[ClipModel]]:
    """Return the models as they are, and copies of them all on each device but the first, which is theirs."""
    copies = [list(models)]
    for device in devices[1:]:
        copies.append([_copy_model(model, device) for model in models])
    return copies


def _copy_model(model: ClipModel, device: str) -> ClipModel:
    head = model.head and copy.deepcopy(model.head).to(device)
    return replace(model, clip=copy.deepcopy(model.clip).to(device), head=head)

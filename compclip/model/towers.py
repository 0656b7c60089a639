"""The two towers of an open_clip model: global embeddings, and patches and tokens in the joint space.

B images or texts, N patches, T text positions, W width, D joint dim.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compclip.base.errors import UserError, report_failure
from compclip.model.tokenizers import TokenLayout

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModule


CLIP = TokenLayout()
BLOCKS = ("resblocks", "blocks", "layer")  # names of lists of blocks: open_clip's, timm's, transformers'
TEXT_LAYERS = ("resblocks", "layer", "block", "layers")  # of text towers: open_clip's, BERT's kind, T5's, M2M100's
WITH_PATCHES = "take a ViT, SigLIP, PE or EVA02"
COMPILER = "inductor"


WEIGHT_TYPES = {"bf16_weights": torch.bfloat16, "fp16_weights": torch.float16}  # by `train.precision`


def cast_weights(clip: ClipModule, precision: str) -> None:
    """Cast weights in place to the type of `precision`, except those that open_clip's `--precision bf16` keeps.

    Those stay in float32, as they do by OpenAI's `convert_weights`, which loads models on a GPU in float16.
    Of open_clip's own towers these are norms, embeddings, class token, scale and bias. A model with a tower of timm's
    is cast whole but for open_clip's norms; one with a tower of transformers', which open_clip cannot run so, as well.
    """
    import open_clip

    layers = open_clip.transformer
    for module in clip.modules():
        if isinstance(module, layers.LayerNorm):
            module.__class__ = layers.LayerNormFp32  # as open_clip builds it for bfloat16: computes in float32
    casts_all = hasattr(clip.visual, "trunk") or isinstance(
        getattr(clip, "text", None), open_clip.hf_model.HFTextEncoder
    )
    if not casts_all:
        open_clip.convert_weights_to_lp(clip, WEIGHT_TYPES[precision])
        return
    clip.to(WEIGHT_TYPES[precision])
    for module in clip.modules():
        if isinstance(module, layers.LayerNormFp32):
            module.float()


def checkpoint_activations(clip: ClipModule, enable: bool = True) -> None:
    """Keep only each block's input; the backward pass computes the rest again (Chen et al. 2016, arXiv:1604.06174).

    Raises UserError for a tower that cannot. A ResNet of open_clip's can, and keeps everything.
    """
    model: Any = clip
    fault = "train.checkpoint_activations=true: a tower of this backbone cannot compute activations again"
    with report_failure(fault, "leave it out, or lower train.micro_batch"):  # timm and transformers raise anything
        model.set_grad_checkpointing(enable)


def compile_blocks(clip: ClipModule, enable: bool = True) -> None:
    """Let torch compile each block of both towers, for sizes that vary; names of weights stay.

    Blocks of one kind share what is compiled at their first call. Raises UserError for a tower without blocks.
    """
    blocks: dict[str, list[nn.Module]] = {"image": [], "text": []}
    for name, module in clip.named_modules():
        if name.rpartition(".")[2] in BLOCKS:
            blocks["image" if name.startswith("visual.") else "text"] += module.children()
    for tower, tower_blocks in blocks.items():
        if not tower_blocks:
            raise UserError(f"train.compile=true: the {tower} tower of this backbone has no blocks; leave it out")
    for block in blocks["image"] + blocks["text"]:
        if enable:
            block.compile(dynamic=True, backend=COMPILER)
        else:
            block._compiled_call_impl = None


def list_text_layers(clip: ClipModule) -> list[nn.Module]:
    """Return the layers of the text tower, first to last: its outermost list of blocks, whichever library built it.

    Raises UserError for a tower without one.
    """
    tower: nn.Module = clip.text if hasattr(clip, "text") else clip.transformer
    for name, module in tower.named_modules():
        if name.rpartition(".")[2] in TEXT_LAYERS and isinstance(module, nn.ModuleList):
            return list(module)
    raise UserError(
        f"train.text_layers: the text tower of this backbone ({type(tower).__name__}) has no layers; leave it out"
    )


def encode_images(clip: ClipModule, image_B3HW: Tensor, tokens: bool = False) -> tuple[Tensor, Tensor | None]:
    """Return unit embeddings [B, D] of pictures and, with `tokens`, raw projected patches [B, N, D].

    ViT: the final layer norm and the projection on every patch token, the class token left out; timm's (EVA02) alike.
    timm's attention pool (SigLIP, PE): the pool's value map, output projection and residual MLP on every patch (C2LIP
    Eq. 3 and 6), and what follows the pool. ResNet: the pool's value map and output projection on every cell, with its
    position. Raises UserError for a tower of timm's without patches (ConvNeXt).
    """
    visual = clip.visual
    first_weight = next(getattr(visual, "conv1", visual).parameters())
    image_B3HW = image_B3HW.to(first_weight.dtype)
    if not tokens:
        return clip.encode_image(image_B3HW, normalize=True), None
    if hasattr(clip.visual, "trunk"):
        return _encode_by_timm(clip.visual, image_B3HW)
    if hasattr(clip.visual, "attnpool"):
        return _encode_by_resnet(clip.visual, image_B3HW)
    out = clip.visual.forward_intermediates(
        image_B3HW, indices=1, normalize_intermediates=True, output_fmt="NLC", output_extra_tokens=True
    )
    patch_BNW = out["image_intermediates"][0]
    patch_BND = patch_BNW if clip.visual.proj is None else patch_BNW @ clip.visual.proj
    return F.normalize(out["image_features"], dim=-1), patch_BND


def _encode_by_resnet(visual: Any, image_B3HW: Tensor) -> tuple[Tensor, Tensor]:
    out = visual.forward_intermediates(image_B3HW, indices=1)
    pool = visual.attnpool
    cell_BNW = out["image_intermediates"][0].flatten(2).transpose(1, 2)
    cell_BNW = cell_BNW + pool.positional_embedding[1:].to(cell_BNW.dtype)  # the first is that of the mean
    return F.normalize(out["image_features"], dim=-1), pool.c_proj(pool.v_proj(cell_BNW))


def _encode_by_timm(visual: Any, image_B3HW: Tensor) -> tuple[Tensor, Tensor]:
    trunk = visual.trunk
    token_BNW = trunk.forward_features(image_B3HW)
    if token_BNW.ndim != 3 or not hasattr(trunk, "num_prefix_tokens"):
        name = type(trunk).__name__
        raise UserError(f"backbone: its image tower ({name}) has no patches, which the method looks at; {WITH_PATCHES}")
    pooled_BD = visual.head(trunk.forward_head(token_BNW))
    return F.normalize(pooled_BD, dim=-1), project_by_timm(visual, token_BNW[:, trunk.num_prefix_tokens :])


def project_by_timm(visual: Any, patch_BNW: Tensor) -> Tensor:
    """Return patches behind the last norm of a tower of timm's in the joint space, raw."""
    trunk = visual.trunk
    pool = getattr(trunk, "attn_pool", None)
    if pool is not None:  # what it would give for each patch alone
        value_BNW = pool.proj(pool.kv(patch_BNW).chunk(2, dim=-1)[1])
        patch_BNW = value_BNW + pool.mlp(pool.norm(value_BNW))
    return visual.head(trunk.head(trunk.fc_norm(patch_BNW)))


def count_positions(clip: ClipModule, text_BL: Tensor) -> int:
    """Return how many positions of some texts the tower needs: T, on a GPU only after a wait for the device."""
    return int(measure_lengths(clip, text_BL).max()) if len(text_BL) else text_BL.shape[1]


def measure_lengths(clip: ClipModule, text_BL: Tensor) -> Tensor:
    """Return how many positions of each text the tower needs, [B].

    CLIP's own causal tower needs those up to the text's end token: nothing depends on what follows. Towers without a
    causal mask, or with another pooling (CLIPA), need all.
    """
    is_causal = not hasattr(clip, "text") and clip.attn_mask is not None and clip.text_pool_type == "argmax"
    return text_BL.argmax(-1) + 1 if is_causal else torch.full(text_BL.shape[:-1], text_BL.shape[-1])


def encode_texts(
    clip: ClipModule,
    text_BL: Tensor,
    tokens: bool = False,
    all_positions: bool = False,
    embedded_BTW: Tensor | None = None,
    raw: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return unit embeddings [B, D] of texts and, with `tokens`, raw projected tokens of every position [B, T, D].

    The tower is run on the positions that it needs, or on `all_positions` of texts that were cut already.
    `embedded_BTW`: their tokens as CLIP's own tower embeds them, where they were looked up for several groups at once.
    With `raw` the embeddings are [B, D + W]: behind each is what it is the projection of (`find_text_matrix`).
    """
    import open_clip

    if hasattr(clip, "text"):
        return _encode_by_text_tower(clip.text, text_BL, tokens, raw)
    causal_mask = clip.attn_mask
    pool = clip.text_pool_type
    T = text_BL.shape[1] if all_positions else count_positions(clip, text_BL)
    text_BT = text_BL[:, :T]
    x_BTW = embed_tokens(clip, text_BT, slice(T), embedded_BTW)
    mask_TT = None if causal_mask is None else causal_mask[:T, :T]
    x_BTW = clip.ln_final(clip.transformer(x_BTW, attn_mask=mask_TT))
    pooled_BW = open_clip.transformer.text_global_pool(x_BTW, text_BT, pool, clip.text_eos_id)
    projected_BD = project(pooled_BW, clip.text_projection)
    raw_BW = projected_BD if find_text_matrix(clip) is None else pooled_BW
    return (
        _append_raw(projected_BD, raw_BW if raw else None),
        project(x_BTW, clip.text_projection) if tokens else None,
    )


def find_text_matrix(clip: ClipModule) -> Tensor | None:
    """Return the text projection [W, D] of CLIP's own tower; None of other towers, whose raw texts are projected."""
    projection = None if hasattr(clip, "text") else clip.text_projection
    return projection if isinstance(projection, Tensor) else None


def _append_raw(projected_BD: Tensor, raw_BW: Tensor | None) -> Tensor:
    text_BD = F.normalize(projected_BD, dim=-1)
    return text_BD if raw_BW is None else torch.cat([text_BD, raw_BW], dim=-1)


def embed_tokens(clip: ClipModule, tokens: Tensor, positions: Tensor | slice, embedded: Tensor | None = None) -> Tensor:
    """Return the input of CLIP's text tower in the type of its products; embeddings may be held in a wider type."""
    dtype = clip.transformer.get_cast_dtype()
    embedded = clip.token_embedding(tokens) if embedded is None else embedded
    return embedded.to(dtype) + clip.positional_embedding[positions].to(dtype)


def embed_groups(clip: ClipModule, texts: Sequence[Tensor]) -> list[Tensor]:
    """Return the embedded tokens [B, T, W] of each group of texts, by one look-up: its gradient is a whole table."""
    embedded_NW = clip.token_embedding(torch.cat([text_BT.flatten() for text_BT in texts]))
    flat_groups = embedded_NW.split([text_BT.numel() for text_BT in texts])
    return [group_NW.unflatten(0, tuple(text_BT.shape)) for group_NW, text_BT in zip(flat_groups, texts, strict=True)]


def _encode_by_text_tower(tower: Any, text_BL: Tensor, tokens: bool, raw: bool) -> tuple[Tensor, Tensor | None]:
    if not tokens:
        projected_BD = tower(text_BL)
        return _append_raw(projected_BD, projected_BD if raw else None), None
    if hasattr(tower, "pooler"):
        pooled_BD, token_BTD = _encode_by_transformers(tower, text_BL)
        return _append_raw(pooled_BD, pooled_BD if raw else None), token_BTD
    output_tokens = tower.output_tokens
    tower.output_tokens = True
    try:
        pooled_BD, x_BTW = tower(text_BL)
    finally:
        tower.output_tokens = output_tokens
    return _append_raw(pooled_BD, pooled_BD if raw else None), project(x_BTW, tower.text_projection)


def _encode_by_transformers(tower: Any, text_BL: Tensor) -> tuple[Tensor, Tensor]:
    """Return what open_clip's HFTextEncoder does, and each position by its projection; the class token stays first."""
    mask_BL = (text_BL != tower.config.pad_token_id).long()
    out = tower.transformer(input_ids=text_BL, attention_mask=mask_BL)
    return tower.proj(tower.pooler(out, mask_BL)), tower.proj(out.last_hidden_state)


def project(x_W: Tensor, projection: nn.Module | Tensor | None) -> Tensor:
    """Project into the joint space; `projection` is a module, a matrix, or None for no projection."""
    if projection is None:
        return x_W
    return projection(x_W) if isinstance(projection, nn.Module) else x_W @ projection


def mask_own_tokens(text_BL: Tensor, T: int, layout: TokenLayout = CLIP) -> Tensor:
    """Return the [B, T] mask of a caption's own tokens and its end token: without start token and padding."""
    end_B1 = (text_BL if layout.end is None else (text_BL == layout.end).int()).argmax(-1, keepdim=True)
    position_T = torch.arange(T, device=text_BL.device)
    return (position_T >= layout.starts) & (position_T <= end_B1)


# --- patches that speak of their own place --------------------------------------------------------------------------
# Patches that speak of their own place: the image tower's last block without its attention.
#
# B images, N patches, W width, D joint dim. What a patch gives there comes from itself alone (MaskCLIP: Zhou et al.,
# ECCV 2022, arXiv:2112.01071); FineCLIP and FG-CLIP pool regions from it. The block is the tower's own, whose
# attention is masked so that each patch sees only itself: exactly its value map, for every architecture.


def encode_with_local_patches(
    clip: ClipModule, image_B3HW: Tensor, tokens: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return what `encode_images` does, and raw projected local patches [B, N, D], by one forward pass.

    Raises UserError for a tower without blocks that take a mask (ResNet, ConvNeXt, timm's relpos), or whose patches are
    no whole square.
    """
    last_block = _last_block(clip.visual)
    with _watch_input(last_block) as inputs:
        image_BD, patch_BND = encode_images(clip, image_B3HW, tokens)
    local_BND = _project_alone(clip.visual, last_block, inputs[-1])
    _check_grid(clip.visual, local_BND.shape[1])
    return image_BD, patch_BND, local_BND


def _last_block(visual: Any) -> Any:
    blocks = visual.trunk.blocks if hasattr(getattr(visual, "trunk", None), "blocks") else None
    if blocks is None and hasattr(visual, "transformer"):
        blocks = visual.transformer.resblocks
    if blocks is None or "attn_mask" not in inspect.signature(blocks[-1].forward).parameters:
        name = type(getattr(visual, "trunk", visual)).__name__
        raise UserError(
            f"backbone: its image tower ({name}) has no patches, of which regions are pooled; {WITH_PATCHES}"
        )
    return blocks[-1]


def _check_grid(visual: Any, patches: int) -> None:
    """Raise UserError where patches are missing (patch dropout), others stand beside them, or rows are longer."""
    rows, columns = (visual.trunk.patch_embed if hasattr(visual, "trunk") else visual).grid_size
    if rows != columns or rows * columns != patches:
        raise UserError(
            f"backbone: its image tower gives {patches} patches of {rows} x {columns}; regions are pooled from all of "
            "a square: take one for square pictures, with one class token and patch_dropout 0"
        )


@contextmanager
def _watch_input(block: Any) -> Iterator[list[Tensor]]:
    """Give a list that holds what goes into the block inside."""
    inputs: list[Tensor] = []
    handle = block.register_forward_pre_hook(lambda _block, args: inputs.append(args[0]))
    try:
        yield inputs
    finally:
        handle.remove()


def _project_alone(visual: Any, block: Any, token_BNW: Tensor) -> Tensor:
    """Return the patches of the block's input as the block, the last norm and the projection make them, each alone."""
    trunk = getattr(visual, "trunk", None)
    patch_BNW = token_BNW[:, 1 if trunk is None else trunk.num_prefix_tokens :]
    mask_NN = torch.full((patch_BNW.shape[1],) * 2, -torch.inf, dtype=patch_BNW.dtype, device=patch_BNW.device)
    patch_BNW = block(patch_BNW, attn_mask=mask_NN.fill_diagonal_(0.0))
    if trunk is not None:
        return project_by_timm(visual, trunk.norm(patch_BNW))
    patch_BNW = visual.ln_post(patch_BNW)
    return patch_BNW if visual.proj is None else patch_BNW @ visual.proj

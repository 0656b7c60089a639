"""Patches that speak of their own place: the image tower's last block without its attention.

B images, N patches, W width, D joint dim. What a patch gives there comes from itself alone (MaskCLIP: Zhou et al., ECCV
2022, arXiv:2112.01071); FineCLIP and FG-CLIP pool regions from it. The block is the tower's own, whose attention is
masked so that each patch sees only itself: exactly its value map, for every architecture.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from compclip.base.errors import UserError
from compclip.model import towers

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModule


def encode_images(clip: ClipModule, image_B3HW: Tensor, tokens: bool) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return what `towers.encode_images` does, and raw projected local patches [B, N, D], by one forward pass.

    Raises UserError for a tower without blocks (ResNet, ConvNeXt), or whose patches are no whole square.
    """
    last_block = _last_block(clip.visual)
    with _watch_input(last_block) as inputs:
        image_BD, patch_BND = towers.encode_images(clip, image_B3HW, tokens)
    local_BND = _project_alone(clip.visual, last_block, inputs[-1])
    _check_grid(clip.visual, local_BND.shape[1])
    return image_BD, patch_BND, local_BND


def _last_block(visual: Any) -> Any:
    blocks = visual.trunk.blocks if hasattr(getattr(visual, "trunk", None), "blocks") else None
    if blocks is None and hasattr(visual, "transformer"):
        blocks = visual.transformer.resblocks
    if blocks is None:
        name = type(getattr(visual, "trunk", visual)).__name__
        raise UserError(f"backbone: its image tower ({name}) has no patches, of which regions are pooled")
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
        return towers.project_by_timm(visual, trunk.norm(patch_BNW))
    patch_BNW = visual.ln_post(patch_BNW)
    return patch_BNW if visual.proj is None else patch_BNW @ visual.proj

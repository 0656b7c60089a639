"""open_clip's image tower with several class tokens, which stand for a picture in the place of its patches (Llip).

`vision_cfg.class_tokens` asks for it. Plain open_clip does not know the key and refuses such a folder. A pretrained
tower, which has one, is given more by `extend_tower`.

B pictures, K class tokens, N patches, W width, D joint dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from open_clip.transformer import VisionTransformer
from torch import Tensor, nn

from compclip.base.errors import UserError
from compclip.model import clip_model

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel, ClipModule

OPTION = "class_tokens"
NOISE = 0.1  # of further class tokens, over the deviation of an untrained one


def build_module(model_cfg: Mapping[str, Any]) -> ClipModule:
    """Build the module of a config with random weights, as `clip_model.build_module`, with its class tokens."""
    vision_cfg = dict(model_cfg["vision_cfg"])
    tokens = vision_cfg.pop(OPTION, 1)
    clip = clip_model.build_module({**model_cfg, "vision_cfg": vision_cfg})
    if tokens != 1:
        _add_class_tokens(clip.visual, tokens)
    return clip


def extend_tower(model: ClipModel, tokens: int, seed: int) -> None:
    """Give a pretrained image tower further class tokens, in place: the one that it has, with noise from `seed`.

    Raises UserError for a tower that is not open_clip's own ViT, or whose vector is not its class token's.
    """
    visual = model.clip.visual
    size = f"{OPTION}={tokens}"
    if type(visual) is not VisionTransformer or visual.pool_type != "tok" or visual.attn_pool is not None:
        raise UserError(f"{size}: only for a backbone with open_clip's own ViT and a class token; take another one")
    first_W = visual.class_embedding.detach()
    position_NW = visual.positional_embedding.detach()
    _add_class_tokens(visual, tokens)
    noise_KW = torch.randn(visual.class_embedding.shape, generator=torch.Generator().manual_seed(seed))
    noise_KW[0] = 0.0
    with torch.no_grad():
        visual.class_embedding.copy_(first_W + NOISE * len(first_W) ** -0.5 * noise_KW.to(first_W))
        visual.positional_embedding.copy_(torch.cat([position_NW[:1].expand(tokens, -1), position_NW[1:]]))
    model.model_cfg["vision_cfg"] = {**model.model_cfg["vision_cfg"], OPTION: tokens}


def _add_class_tokens(visual: Any, tokens: int) -> None:
    """Make an image tower one of several class tokens, in place; their weights are zeros."""
    if type(visual) is not VisionTransformer:
        raise ValueError(f"vision_cfg.{OPTION}: only for open_clip's own ViT, not {type(visual).__name__}")
    positions, width = visual.positional_embedding.shape
    visual.__class__ = ClassTokenTower
    visual.class_embedding = nn.Parameter(visual.class_embedding.new_zeros(tokens, width))
    visual.positional_embedding = nn.Parameter(visual.positional_embedding.new_zeros(tokens + positions - 1, width))
    # `proj` would be applied to every token
    visual.first_proj = visual.proj
    visual.proj = None


class ClassTokenTower(VisionTransformer):
    """A ViT whose first class token gives the vector of a picture, and all of them its tokens."""

    first_proj: Tensor

    def _embeds(self, image_B3HW: Tensor) -> Tensor:
        patch_BNW = self.conv1(image_B3HW).flatten(2).transpose(1, 2)
        token_BKW = self.class_embedding.to(patch_BNW.dtype).expand(len(patch_BNW), -1, -1)
        return self.ln_pre(torch.cat([token_BKW, patch_BNW], dim=1) + self.positional_embedding.to(patch_BNW.dtype))

    def _class_tokens(self, image_B3HW: Tensor) -> Tensor:
        """Return the class tokens [B, K, W] behind the last layer norm."""
        return self.ln_post(self.transformer(self._embeds(image_B3HW))[:, : len(self.class_embedding)])

    def forward(self, image_B3HW: Tensor) -> Tensor:
        """Return the vectors [B, D] of pictures."""
        return self._project_first(self._class_tokens(image_B3HW))

    def forward_intermediates(self, image_B3HW: Tensor, **_options: Any) -> dict[str, Any]:
        """Return vectors, and class tokens where open_clip has patches."""
        token_BKW = self._class_tokens(image_B3HW)
        return {"image_features": self._project_first(token_BKW), "image_intermediates": [token_BKW]}

    def _project_first(self, token_BKW: Tensor) -> Tensor:
        return token_BKW[:, 0] @ self.first_proj.to(token_BKW.dtype)

"""open_clip's image tower with several class tokens, which stand for a picture in the place of its patches (Llip).

`vision_cfg.class_tokens` asks for it. Plain open_clip does not know the key and refuses such a folder.

B pictures, K class tokens, N patches, W width, D joint dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from open_clip.transformer import VisionTransformer
from torch import Tensor, nn

from compclip.model import clip_model

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModule

OPTION = "class_tokens"


def build_module(model_cfg: Mapping[str, Any]) -> ClipModule:
    """Build the module of a config with random weights, as `clip_model.build_module`, with its class tokens."""
    vision_cfg = dict(model_cfg["vision_cfg"])
    tokens = vision_cfg.pop(OPTION, 1)
    clip = clip_model.build_module({**model_cfg, "vision_cfg": vision_cfg})
    if tokens != 1:
        _add_class_tokens(clip.visual, tokens)
    return clip


def _add_class_tokens(visual: Any, tokens: int) -> None:
    """Make an image tower one of several class tokens, in place; their weights are zeros."""
    if type(visual) is not VisionTransformer:
        raise ValueError(f"vision_cfg.{OPTION}: only for open_clip's own ViT, not {type(visual).__name__}")
    positions, width = visual.positional_embedding.shape
    visual.__class__ = ClassTokenTower
    visual.class_embedding = nn.Parameter(torch.zeros(tokens, width))
    visual.positional_embedding = nn.Parameter(torch.zeros(tokens + positions - 1, width))
    visual.first_proj, visual.proj = visual.proj, None  # `proj` would be applied to every token


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
        return self._class_tokens(image_B3HW)[:, 0] @ self.first_proj

    def forward_intermediates(self, image_B3HW: Tensor, **_options: Any) -> dict[str, Any]:
        """Return vectors, and class tokens where open_clip has patches."""
        token_BKW = self._class_tokens(image_B3HW)
        return {"image_features": token_BKW[:, 0] @ self.first_proj, "image_intermediates": [token_BKW]}

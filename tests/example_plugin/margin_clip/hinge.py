"""A hinge between each caption's score and those of its negatives.

B images, K negatives, D dim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def hinge(image_BD: Tensor, text_BD: Tensor, negative_BKD: Tensor, mask_BK: Tensor, margin: float) -> Tensor:
    """The mean over the valid negatives of max(0, margin - cos(image, caption) + cos(image, negative)); 0 without one."""
    right_B1 = (image_BD * text_BD).sum(-1, keepdim=True)
    wrong_BK = (negative_BKD @ image_BD.unsqueeze(-1)).squeeze(-1)
    short_BK = (margin - right_B1 + wrong_BK).clamp(min=0) * mask_BK
    return short_BK.sum() / mask_BK.sum().clamp(min=1)

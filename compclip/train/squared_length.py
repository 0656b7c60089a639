"""‖Vᵀa‖² with a slope that needs half the products, for losses.cross_attended.

B images, P patches, N texts or concepts, D dim.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class SquaredLength(torch.autograd.Function):
    """‖Vᵀa‖² = aᵀ(VVᵀ)a for each image and column a. V Vᵀ is symmetric, which halves the products of its slope."""

    @staticmethod
    def forward(ctx: Any, patch_BPD: Tensor, attention_BPN: Tensor) -> Tensor:
        pulled_BPN = patch_BPD @ patch_BPD.mT @ attention_BPN
        ctx.save_for_backward(patch_BPD, attention_BPN, pulled_BPN)
        return (attention_BPN * pulled_BPN).sum(dim=1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope_BN: Tensor) -> tuple[Tensor | None, Tensor]:
        patch_BPD, attention_BPN, pulled_BPN = ctx.saved_tensors
        slope_B1N = 2 * slope_BN[:, None]
        if not ctx.needs_input_grad[0]:
            return None, pulled_BPN * slope_B1N
        return (attention_BPN * slope_B1N) @ attention_BPN.mT @ patch_BPD, pulled_BPN * slope_B1N

"""A low-rank update of a convolution as one matrix, as FSC-CLIP, SVLC and DAC adapt the patch convolution (loralib).

The kernel [out, in, k, k] is read as a matrix [out k, in k] whose update has rank r k: A [r k, in k], B [out k, r k],
dW = alpha / r (B A), viewed as the kernel. On ViT-B/32 at rank 4 that is 3.16 of 4.14 million trained parameters. Names
are PEFT's (`lora_A.default.weight`), so that an adapter is saved, counted and resumed as the others are.

B batch, C and O channels in and out, K side of the kernel, H, W sides of the picture.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from compclip.base.errors import UserError

NAME = "default"


class MatrixConv(nn.Module):
    """A convolution and its update; it starts as what the convolution computes."""

    def __init__(self, base: nn.Conv2d, rank: int, alpha: float) -> None:
        super().__init__()
        side = base.kernel_size[0]
        self.base_layer, self.scaling = base, alpha / rank
        down = nn.Linear(side * base.in_channels, rank * side, bias=False)
        up = nn.Linear(rank * side, side * base.out_channels, bias=False)
        nn.init.zeros_(up.weight)
        self.lora_A, self.lora_B = nn.ModuleDict({NAME: down}), nn.ModuleDict({NAME: up})

    def update(self, scale: float = 1.0) -> Tensor:
        """`scale` times dW [O, C, K, K]."""
        down, up = (cast("nn.Linear", factor[NAME]).weight for factor in (self.lora_A, self.lora_B))
        return (up @ down).view(self.base_layer.weight.shape) * (scale * self.scaling)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """The convolution with the updated kernel."""
        base = self.base_layer
        return F.conv2d(x_BCHW, base.weight + self.update(), base.bias, base.stride, cast("tuple", base.padding))

    def merged(self, scale: float) -> nn.Conv2d:
        """The convolution with `scale` times the update added to its kernel in place."""
        self.base_layer.weight.data += self.update(scale).detach()
        return self.base_layer


def check(name: str, module: nn.Module) -> None:
    """Raise UserError for a module whose kernel is no square that such a matrix stands for."""
    fits = type(module) is nn.Conv2d and len(set(module.kernel_size)) == 1 and module.groups == 1
    if not fits or set(module.dilation) != {1} or module.padding_mode != "zeros":
        raise UserError(
            f"train.lora.patch: matrix: {name} is no plain convolution with a square kernel; set patch: factors"
        )

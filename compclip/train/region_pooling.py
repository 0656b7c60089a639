"""Vectors of regions: the mean of a grid of patches over a box (RoIAlign: He et al., ICCV 2017, arXiv:1703.06870).

B images, R regions, S side of the grid, N = S² patches, P points of a side, D dim. A point's value is bilinear between
patches' centres, and a box has as many points a side as it spans patches, rounded up. A mean over a grid of points of
what is a product over both axes is the product of two means, so that all regions are two small products of matrices:
the same as `torchvision.ops.roi_align` with one cell, and with the same bits at every run.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def pool_regions(patch_BND: Tensor, box_BR4: Tensor) -> Tensor:
    """Return the means [B, R, D] of patches over boxes: left, upper, right, lower in shares of the picture."""
    S = math.isqrt(patch_BND.shape[1])
    left_BR, upper_BR, right_BR, lower_BR = box_BR4.unbind(-1)
    across_BRS, down_BRS = (axis_weights(*edges, S) for edges in ((left_BR, right_BR), (upper_BR, lower_BR)))
    weight_BRN = torch.einsum("bri,brj->brij", down_BRS, across_BRS).flatten(2)
    return weight_BRN.to(patch_BND.dtype) @ patch_BND


def axis_weights(start_BR: Tensor, end_BR: Tensor, S: int) -> Tensor:
    """Return the weights [B, R, S] of S patches in a row in the mean from `start` to `end`, shares of the row."""
    length_BR1 = (end_BR - start_BR)[..., None] * S
    points_BR1 = length_BR1.ceil().clamp(1, S)
    point_P = torch.arange(S, device=start_BR.device)
    place_BRP = start_BR[..., None] * S - 0.5 + (point_P + 0.5) * length_BR1 / points_BR1  # patch i is centred at i
    place_BRP = place_BRP.clamp(0, S - 1)
    near_BRPS = (1 - (place_BRP[..., None] - point_P).abs()).clamp_min(0)
    counts_BRP = (point_P < points_BR1) / points_BR1
    return (near_BRPS * counts_BRP[..., None]).sum(dim=-2)

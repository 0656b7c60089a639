"""Terms that need patches and tokens: each process computes them for its own samples, whose parts no other one has.

b images of this process, B of all, C candidates, M concepts, N patches, D dim. Values and slopes are those of the
whole batch on one process, up to rounding; with one process nothing is changed. A loss otherwise computes the whole
batch on every process, so that slopes of what is shared (scale, bias, concepts) are put together here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from compclip.train import distributed, losses

if TYPE_CHECKING:
    from compclip.interface.features import Features


def local_scores(f: Features, token_BCTD: Tensor, mask_BCT: Tensor, attention: str) -> Tensor:
    """Return [B, C] local scores of all images with their own candidate texts (FSC-CLIP Eq. 6–8)."""
    scale = _undo_share(f.scale)
    scores_bC = losses.local_similarity(f.patch_BND, token_BCTD, mask_BCT, scale, attention)
    return distributed.gather_rows(scores_bC, f.images_by_rank) if dist.is_initialized() else scores_bC


def cross_attended(f: Features) -> Tensor:
    """Return C2LIP's cross-attended term (Eq. 6, 7), a scalar: own images and all concepts, summed over processes."""
    assert f.patch_BND is not None and f.bias is not None  # views with tokens, a method that needs a bias
    if not dist.is_initialized():
        return losses.cross_attended(f.patch_BND, f.concept_MD, f.owner_M, f.scale, f.bias)
    start = sum(f.images_by_rank[: dist.get_rank()])
    # with a slope on every process: all of them wait for each other in its sum
    concept_MD = f.concept_MD if f.concept_MD.requires_grad else f.concept_MD.detach().requires_grad_()
    concept_MD = distributed.ChangedSlope.apply(concept_MD, _sum_slopes)
    scale = _undo_share(f.scale)
    bias = _undo_share(f.bias)
    return _SumOfValues.apply(losses.cross_attended(f.patch_BND, concept_MD, f.owner_M - start, scale, bias))


def _undo_share(parameter: Tensor) -> Tensor:
    """Return a shared parameter whose slope here is this process's rows' alone: `gather_features` divides it."""
    if not dist.is_initialized():
        return parameter
    return distributed.ChangedSlope.apply(parameter, lambda slope: slope * dist.get_world_size())


def _sum_slopes(slope: Tensor) -> Tensor:
    """Return the sum of all processes' slopes of rows that are the same on each."""
    wide = torch.promote_types(slope.dtype, torch.float32)
    total = slope.to(wide, memory_format=torch.contiguous_format, copy=True)
    dist.all_reduce(total)
    return total.to(slope.dtype)


class _SumOfValues(torch.autograd.Function):
    """The sum of a term over processes; each one's rows have the slope of the sum."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.detach().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return slope

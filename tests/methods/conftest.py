"""A drawn batch of features, as a model would give it; every tensor is a leaf with a gradient.

B images, K negatives, P positives, N patches, T tokens, M concepts, D dim.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from compclip.train.features import Features


def make(B: int = 4, K: int = 3, P: int = 3, M: int = 5, fill: str = "some", seed: int = 0) -> Features:
    """Float64 features; masks hold some, all or none of the negatives and positives."""
    generator, N, T, D = torch.Generator().manual_seed(seed), 5, 6, 8

    def raw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    def unit(*shape: int) -> Tensor:
        return F.normalize(raw(*shape).detach(), dim=-1).requires_grad_()

    def mask(*shape: int) -> Tensor:
        drawn = torch.rand(*shape, generator=generator) < 0.6
        return {"all": torch.ones_like(drawn), "none": torch.zeros_like(drawn)}.get(fill, drawn)

    def words(*shape: int) -> Tensor:
        return torch.arange(T) < torch.randint(1, T + 1, (*shape, 1), generator=generator)

    return Features(
        image_BD=unit(B, D), text_BD=unit(B, D), negative_BKD=unit(B, K, D), mask_BK=mask(B, K),
        positive_BPD=unit(B, P, D), positive_mask_BP=mask(B, P), concept_MD=unit(M, D),
        owner_M=torch.randint(B, (M,), generator=generator),
        scale=torch.tensor(5.0, dtype=torch.float64).requires_grad_(),
        bias=torch.tensor(-2.0, dtype=torch.float64).requires_grad_(), patch_BND=raw(B, N, D), token_BTD=raw(B, T, D),
        token_mask_BT=words(B), negative_token_BKTD=raw(B, K, T, D), negative_token_mask_BKT=words(B, K),
    )  # fmt: skip


@pytest.fixture
def features() -> Callable[..., Features]:
    """The maker of batches."""
    return make

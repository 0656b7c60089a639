"""Compute terms of papers' losses that other methods reuse, as functions of a batch's features.

B images, K negatives, C = 1 + K candidate texts, N patches, T tokens, D dim. Terms that need no features are in
`compclip/train/losses.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from compclip.base.lazy_torch import torch
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.interface.features import Features


# Margins by kinds of negatives (CE-CLIP, AHNPL)


def candidate_scores(f: Features) -> Tensor:
    """Return the logits [B, 1 + K] of each image with its caption and its negatives."""
    return losses.candidate_scores(f.image_BD, f.text_BD, f.negative_BKD, f.scale)


def mean_leads(f: Features) -> Tensor:
    """Return by how much the batch's captions lead its negatives of each kind on average, [K]."""
    scores_BC = candidate_scores(f)
    count_K = f.mask_BK.sum(dim=0)
    negative_K = scores_BC[:, 1:].masked_fill(~f.mask_BK, 0.0).sum(dim=0) / count_K.clamp_min(1)
    return scores_BC[:, 0].mean() - negative_K


def margins(f: Features, margin_K: Tensor) -> Tensor:
    """Return by how much captions miss their lead, the margin of each kind, mean over all B K places; a scalar."""
    scores_BC = candidate_scores(f)
    short_BK = (margin_K + scores_BC[:, 1:] - scores_BC[:, :1]).clamp_min(0.0)
    return short_BK.masked_fill(~f.mask_BK, 0.0).mean()


# Composites (CLIC)


def captions(f: Features) -> list[Tensor]:
    """Return the captions p1, p2, … of composites, each [B, D]."""
    return [f.text_BD, *f.positive_BPD.unbind(1)]


def mean_over(captions: Sequence[Tensor], term: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the mean of a term over captions p_l (CLIC Eq. 4, 5), a scalar."""
    return torch.stack([term(p_BD) for p_BD in captions]).mean()


def uni(f: Features, norm: str) -> Tensor:
    """Return CLIC Eq. 6: the mean distance of p1 and p2, the same sentences in reverse order; `norm`: squared or l2."""
    p1_BD, p2_BD = captions(f)[:2]
    difference_BD = (p1_BD - p2_BD).float() if p1_BD.dtype.itemsize < 4 else p1_BD - p2_BD
    if norm == "l2":
        return torch.linalg.vector_norm(difference_BD, dim=1).mean()
    return difference_BD.square().sum(dim=1).mean()


# An image's candidate texts (FSC-CLIP)


def local_scores(f: Features, attention: str) -> Tensor:
    """Return the local scores S_l [B, C] of each image and its candidate texts (FSC-CLIP Eq. 6–8)."""
    from compclip.train import own_rows

    token_BCTD = torch.cat([f.token_BTD[:, None], f.negative_token_BKTD], dim=1)
    mask_BCT = torch.cat([f.token_mask_BT[:, None], f.negative_token_mask_BKT], dim=1)
    return own_rows.local_scores(f, token_BCTD, mask_BCT, attention)


def hard_negative(scores_BC: Tensor, f: Features, gamma: float, epsilon: float) -> Tensor:
    """Contrast captions with their valid negatives, with focal loss and smoothing (FSC-CLIP Eq. 9–10); a scalar."""
    return losses.focal_smoothed(scores_BC, losses.with_original(f.mask_BK), gamma, epsilon)

"""What the losses see of a batch: embeddings and tokens in the joint space.

B images, K negatives, P extra positives, N patches, T tokens, M concepts, D dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

# Fields with a row for each image, or for each concept.
ROWS = (
    "image_BD",
    "text_BD",
    "negative_BKD",
    "mask_BK",
    "positive_BPD",
    "positive_mask_BP",
    "concept_MD",
    "owner_M",
    "patch_BND",
    "token_BTD",
    "token_mask_BT",
    "negative_token_BKTD",
    "negative_token_mask_BKT",
)
# Where the text positions stand in those that have them.
TEXT_AXIS = {"token_BTD": 1, "token_mask_BT": 1, "negative_token_BKTD": 2, "negative_token_mask_BKT": 2}


@dataclass(frozen=True)
class Features:
    """Global embeddings are unit vectors; patches and tokens are projected into the joint space and raw.

    `mask_BK` and `positive_mask_BP` are True where a rule gave a text. `token_mask_BT` holds a caption's own tokens
    and its end token. `concept_MD` are unit vectors, `owner_M` the image each belongs to. `scale` is
    exp(logit_scale); `bias` is None for softmax models without one. Patches and tokens are None unless the
    method's views ask for them.
    """

    image_BD: Tensor
    text_BD: Tensor
    negative_BKD: Tensor
    mask_BK: Tensor
    positive_BPD: Tensor
    positive_mask_BP: Tensor
    concept_MD: Tensor
    owner_M: Tensor
    scale: Tensor
    bias: Tensor | None = None
    patch_BND: Tensor | None = None
    token_BTD: Tensor | None = None
    token_mask_BT: Tensor | None = None
    negative_token_BKTD: Tensor | None = None
    negative_token_mask_BKT: Tensor | None = None


def padded(f: Features, T: int) -> Features:
    """The same with T text positions: those added are zeros, masked."""
    if f.token_BTD is None:
        return f
    return replace(f, **{name: _pad(getattr(f, name), axis, T) for name, axis in TEXT_AXIS.items()})


def _pad(x: Tensor, axis: int, T: int) -> Tensor:
    return F.pad(x, (0, 0) * (x.ndim - 1 - axis) + (0, T - x.shape[axis]))


def join(parts: Sequence[Features]) -> Features:
    """One batch of several, in order; scale and bias are the first one's."""
    T = max(0 if f.token_BTD is None else f.token_BTD.shape[1] for f in parts)
    parts, start = [padded(f, T) for f in parts], 0
    owners = []
    for f in parts:
        owners.append(f.owner_M + start)
        start += len(f.image_BD)
    values = {n: torch.cat([getattr(f, n) for f in parts]) for n in ROWS if getattr(parts[0], n) is not None}
    return replace(parts[0], **values | {"owner_M": torch.cat(owners)})

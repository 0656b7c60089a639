"""What the losses see of a batch: embeddings and tokens in the joint space.

B images, K negatives, P extra positives, N patches, T tokens, M concepts, D dim.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


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

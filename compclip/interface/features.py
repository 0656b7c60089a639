"""What the losses see of a batch: embeddings and tokens in the joint space.

B images, K negatives, P extra positives, J negative images, N patches, T tokens, M concepts, R regions, C texts of a
region, D dim, W width of a text before its projection.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from compclip.base.lazy_torch import F, torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Kind:
    """What a field holds: a row for each `row` of the batch, made by a `tower`; where its text positions stand, if any.

    Masks and owners are made by no tower, and have no slope. What is `token_level`, patches and tokens, may stay with
    its process.
    """

    row: str  # "image" or "concept"
    tower: str = ""  # "image" or "text"
    text_axis: int | None = None
    token_level: bool = False


def _field(
    row: str, tower: str = "", text_axis: int | None = None, default: Any = MISSING, token_level: bool = False
) -> Any:
    return field(metadata={"kind": Kind(row, tower, text_axis, token_level)}, default=default)


@dataclass(frozen=True, kw_only=True)
class Features:
    """Global embeddings are unit vectors; patches and tokens are projected into the joint space and raw.

    `mask_BK` and `positive_mask_BP` are True where a rule gave a text. `token_mask_BT` holds a caption's own tokens
    and its end token. `concept_MD` are unit vectors, `owner_M` the image each belongs to. `scale` is
    exp(logit_scale); `bias` is None for softmax models without one. Patches and tokens are None unless the
    method's views ask for them, as negative images, regions and `raw_text_BW`, captions before the text projection.

    `region_BRD` are unit vectors of boxes in the picture, `region_crop_BRD` of the boxes shown as pictures, and
    `region_text_BRCD` of a region's texts: a caption and, where asked for, its first caption and false texts. Where no
    region is, all its masks are False.

    On several processes rows are those of all, `images_by_rank` of each; patches and tokens are this process's alone
    where the views say `own_tokens`.

    The last three are what a method keeps beside the model (`extras`): `heads` that are trained with it, the same batch
    as a `teacher` sees it, without slopes, and numbers that it remembers from the step before.
    """

    image_BD: Tensor = _field("image", "image")
    text_BD: Tensor = _field("image", "text")
    negative_BKD: Tensor = _field("image", "text")
    mask_BK: Tensor = _field("image")
    positive_BPD: Tensor = _field("image", "text")
    positive_mask_BP: Tensor = _field("image")
    concept_MD: Tensor = _field("concept", "text")
    owner_M: Tensor = _field("concept")
    scale: Tensor
    bias: Tensor | None = None
    patch_BND: Tensor | None = _field("image", "image", default=None, token_level=True)
    raw_text_BW: Tensor | None = _field("image", "text", default=None)
    token_BTD: Tensor | None = _field("image", "text", 1, default=None, token_level=True)
    token_mask_BT: Tensor | None = _field("image", text_axis=1, default=None, token_level=True)
    negative_token_BKTD: Tensor | None = _field("image", "text", 2, default=None, token_level=True)
    negative_token_mask_BKT: Tensor | None = _field("image", text_axis=2, default=None, token_level=True)
    negative_image_BJD: Tensor | None = _field("image", "image", default=None)
    negative_image_mask_BJ: Tensor | None = _field("image", default=None)
    target_BL: Tensor | None = _field("image", default=None)
    region_BRD: Tensor | None = _field("image", "image", default=None)
    region_mask_BR: Tensor | None = _field("image", default=None)
    region_text_BRCD: Tensor | None = _field("image", "text", default=None)
    region_text_mask_BRC: Tensor | None = _field("image", default=None)
    region_crop_BRD: Tensor | None = _field("image", "image", default=None)
    images_by_rank: tuple[int, ...] = ()
    heads: Any = None  # the method's own nn.Module
    teacher: Features | None = None
    memory: Mapping[str, Tensor] = field(default_factory=dict)


@functools.cache
def field_kinds() -> dict[str, Kind]:
    """Return the fields that have rows, in order, and what each holds; scale and bias have none."""
    return {f.name: f.metadata["kind"] for f in fields(Features) if "kind" in f.metadata}


def pad_text(f: Features, T: int) -> Features:
    """Return the features with T text positions; those added are zeros, masked."""
    if f.token_BTD is None:
        return f
    longer: dict[str, Any] = {}
    for name, kind in field_kinds().items():
        if (axis := kind.text_axis) is not None:
            x = getattr(f, name)
            longer[name] = F.pad(x, (0, 0) * (x.ndim - 1 - axis) + (0, T - x.shape[axis]))
    return replace(f, **longer)


def join(features: Sequence[Features]) -> Features:
    """Return one batch of several, in order; scale and bias are the first one's."""
    T = max(0 if f.token_BTD is None else f.token_BTD.shape[1] for f in features)
    features, start = [pad_text(f, T) for f in features], 0
    owners = []
    for f in features:
        owners.append(f.owner_M + start)
        start += len(f.image_BD)
    values: dict[str, Any] = {
        n: torch.cat([getattr(f, n) for f in features]) for n in field_kinds() if getattr(features[0], n) is not None
    }
    return replace(features[0], **values | {"owner_M": torch.cat(owners)})

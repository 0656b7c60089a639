"""Define the features of a batch that a loss gets: embeddings and tokens in the joint space.

B images, K negatives, P extra positives, N patches, T tokens, M concepts, D dim.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from compclip.base.lazy_torch import F, torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Kind:
    """What a field of `Features` holds: one row for each `row` of the batch, computed by a `tower`.

    Masks and owners come from no tower and have no gradient. `text_axis` is the axis of text positions, if there is
    one. `token_level` marks patches and tokens, which may stay on the process that computed them.
    """

    row: str  # "image" or "concept"
    tower: str = ""  # "image" or "text"
    text_axis: int | None = None
    token_level: bool = False


def _field(*kind: Any, default: Any = MISSING, **more: Any) -> Any:
    return field(metadata={"kind": Kind(*kind, **more)}, default=default)


@dataclass(frozen=True)
class NamedRows:
    """Features of texts or pictures under a name: values [B, ...] and a mask [B, ...] of those that exist.

    `tower`: "image" or "text" computed the values; empty for token ids, which have no gradient. The mask is None if all
    values exist.
    """

    values: Tensor
    mask: Tensor | None = None
    tower: str = ""


@dataclass(frozen=True, kw_only=True)
class Features:
    """The features of a batch. Global embeddings are unit vectors; patches and tokens are projected but not normalised.

    `mask_BK` and `positive_mask_BP` are True where a rule gave a text. `token_mask_BT` is True for a caption's own
    tokens and its end token. `concept_MD` are unit vectors, and `owner_M` is the index of each one's image. `scale` is
    exp(logit_scale); `bias` is None for softmax models without one. Patches and tokens are None unless the method's
    views ask for them.

    `named` holds further features that the views ask for: "negative_images" [B, J, D]; "regions" [B, R, D], unit
    vectors of boxes in the picture; "region_crops" [B, R, D], of the boxes shown as pictures; "region_texts" [B, R, C,
    D], a caption, and if asked for the first caption and false texts; "raw_captions" [B, W], captions before the text
    projection; "target" [B, L], token ids to predict, padded with -1; and texts of a rule under the name of their
    group.

    With several processes, the rows are those of all processes, and `images_by_rank` says how many each has. Patches
    and tokens are only those of this process if the views set `own_tokens`.

    The last three fields are what a method keeps besides the model (`extras`): `heads` that are trained with it, the
    features of the same batch from a `teacher`, without gradients, and numbers that it remembers from the last step.
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
    token_BTD: Tensor | None = _field("image", "text", 1, default=None, token_level=True)
    token_mask_BT: Tensor | None = _field("image", text_axis=1, default=None, token_level=True)
    negative_token_BKTD: Tensor | None = _field("image", "text", 2, default=None, token_level=True)
    negative_token_mask_BKT: Tensor | None = _field("image", text_axis=2, default=None, token_level=True)
    named: Mapping[str, NamedRows] = field(default_factory=dict)
    images_by_rank: tuple[int, ...] = ()
    heads: Any = None  # the method's own nn.Module
    teacher: Features | None = None
    memory: Mapping[str, Tensor] = field(default_factory=dict)


@functools.cache
def field_kinds() -> dict[str, Kind]:
    """Return the kind of each field that has rows, in order; scale, bias and `named` have none."""
    return {f.name: f.metadata["kind"] for f in fields(Features) if "kind" in f.metadata}


def list_rows(f: Features) -> dict[str, tuple[Tensor, Kind]]:
    """Return each tensor that has rows, with its kind; those of `named` are called "name.values" and "name.mask"."""
    rows = {}
    for name, kind in field_kinds().items():
        tensor = getattr(f, name)
        if tensor is not None:
            rows[name] = tensor, kind
    for name, block in f.named.items():
        rows[f"{name}.values"] = block.values, Kind("image", block.tower)
        if block.mask is not None:
            rows[f"{name}.mask"] = block.mask, Kind("image")
    return rows


def change_rows(f: Features, change: Callable[[str, Tensor, Kind], Tensor]) -> Features:
    """Return the features with each tensor of `list_rows` replaced by `change(name, tensor, kind)`."""
    rows: dict[str, Any] = {name: change(name, tensor, kind) for name, (tensor, kind) in list_rows(f).items()}
    named = {
        name: replace(block, values=rows.pop(f"{name}.values"), mask=rows.pop(f"{name}.mask", None))
        for name, block in f.named.items()
    }
    return replace(f, **rows, named=named)


def pad_text(f: Features, T: int) -> Features:
    """Return the features padded to T text positions; the added positions are zeros and masked."""

    def pad(_name: str, x: Tensor, kind: Kind) -> Tensor:
        if kind.text_axis is None:
            return x
        return F.pad(x, (0, 0) * (x.ndim - 1 - kind.text_axis) + (0, T - x.shape[kind.text_axis]))

    return change_rows(f, pad)


def join(features: Sequence[Features]) -> Features:
    """Join the features of several batches into one, in order; scale and bias are those of the first."""
    T = max(0 if f.token_BTD is None else f.token_BTD.shape[1] for f in features)
    start = 0
    parts = []
    for f in features:
        padded = pad_text(f, T)
        parts.append(list_rows(replace(padded, owner_M=f.owner_M + start)))
        start += len(f.image_BD)
    return change_rows(features[0], lambda name, _tensor, _kind: torch.cat([part[name][0] for part in parts]))

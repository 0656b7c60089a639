"""Which texts of a batch are encoded together: all in one block as long as the longest, or groups of similar length.

A all texts of a batch: captions, negatives, positives, concepts and regions' texts, one after another. N those that
are encoded, U lengths of theirs, as counts of positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compclip.train.batch import Batch


@dataclass(frozen=True)
class TextGroups:
    """The places of a batch's encoded texts, group by group; of each group the numbers of texts and of positions."""

    index_N: Tensor
    counts: tuple[int, ...]
    positions: tuple[int, ...]


def plan_groups(batch: Batch, count: int) -> TextGroups | None:
    """Return at most `count` groups of the least padding; None where all texts are encoded in one block.

    The index is on the CPU, pinned where there is a GPU. Texts whose lengths the batch does not know are one group.
    """
    encoded_A = _list_values(batch, (None, batch.encoded_BK, batch.encoded_BP, None, batch.encoded_BRC), True)
    index_N, longest = encoded_A.nonzero()[0], batch.text_BL.shape[1]
    length_N = np.full(len(index_N), longest)
    if count > 1:
        lengths = (batch.length_B, batch.length_BK, batch.length_BP, batch.length_M, batch.length_BRC)
        length_N = _list_values(batch, lengths, longest)[index_N]
    groups = split_by_length(length_N, count)
    positions = tuple(int(length_N[group[-1]]) for group in groups)
    if positions == (longest,) and encoded_A.all():
        return None
    ordered_N = torch.from_numpy(index_N[np.concatenate(groups)])
    pinned_N = ordered_N if batch.text_BL.device.type == "cpu" else ordered_N.pin_memory()
    return TextGroups(pinned_N, tuple(len(group) for group in groups), positions)


def _list_values(batch: Batch, values: tuple[np.ndarray | None, ...], default: int) -> np.ndarray:
    """Return what is known of each text; `default` where the batch says nothing of its kind."""
    regions = 0 if batch.region_text_mask_BRC is None else batch.region_text_mask_BRC.numel()
    sizes = (len(batch), batch.mask_BK.numel(), batch.positive_mask_BP.numel(), len(batch.concept_ML), regions)
    return np.concatenate([
        np.full(size, default) if kind is None else kind.ravel() for kind, size in zip(values, sizes, strict=True)
    ])  # fmt: skip


def split_by_length(length_N: np.ndarray, count: int) -> list[np.ndarray]:
    """Return the places of at most `count` groups, shortest first, whose blocks have the fewest positions together."""
    order_N = np.argsort(length_N, kind="stable")
    length_U, first_U = np.unique(length_N[order_N], return_index=True)
    end_U = np.append(first_U[1:], len(length_N))
    # the block of all texts from the u-th length to the v-th
    block_VU = np.where(np.tri(len(length_U), dtype=bool), length_U[:, None] * (end_U[:, None] - first_U), np.inf)
    least_V, choices = block_VU[:, 0], []
    for _ in range(count - 1):
        total_VU = block_VU + np.append(0, least_V[:-1])
        choices.append(total_VU.argmin(1))
        least_V = total_VU.min(1)
    cuts, end = [], len(length_U)
    for first_V in reversed(choices):
        if end and (end := int(first_V[end - 1])):
            cuts.append(int(first_U[end]))
    return np.split(order_N, sorted(cuts))

"""Which texts of a batch are encoded together: all in one block as long as the longest, or groups of similar length.

A all texts of a batch: its blocks of texts, one after another. N those that
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
    encoded_A = _list_known(batch, "encoded", True)
    index_N, longest = encoded_A.nonzero()[0], batch.text_BL.shape[1]
    length_N = np.full(len(index_N), longest)
    if count > 1:
        length_N = _list_known(batch, "length", longest)[index_N]
    groups = split_by_length(length_N, count)
    positions = tuple(int(length_N[group[-1]]) for group in groups)
    if positions == (longest,) and encoded_A.all():
        return None
    ordered_N = torch.from_numpy(index_N[np.concatenate(groups)])
    pinned_N = ordered_N if batch.text_BL.device.type == "cpu" else ordered_N.pin_memory()
    return TextGroups(pinned_N, tuple(len(group) for group in groups), positions)


def _list_known(batch: Batch, name: str, default: int) -> np.ndarray:
    """Return what the host knows of each text, "encoded" or "length"; `default` where it knows nothing of a block."""
    values = []
    for block in batch.texts.values():
        known = getattr(block, name)
        values.append(np.full(block.ids.shape[:-1].numel(), default) if known is None else known.ravel())
    return np.concatenate(values)


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

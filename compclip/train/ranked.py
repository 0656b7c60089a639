"""The samples of one kind by their rank: of millions of samples, without a list of those that are of the kind."""

from __future__ import annotations

import numpy as np

BLOCK = 4096


class RankedSamples:
    """The places of an array of truths that hold `value`, rising."""

    def __init__(self, truths: np.ndarray, value: bool) -> None:
        self.truths, self.value = truths, value
        blocks = (truths[low : low + BLOCK] for low in range(0, len(truths), BLOCK))
        counts = [int(np.count_nonzero(block == value)) for block in blocks]
        self._before = np.cumsum([0, *counts])  # each block

    def __len__(self) -> int:
        return int(self._before[-1])

    def __getitem__(self, rank: int) -> int:
        if not 0 <= rank < len(self):
            raise IndexError(f"place {rank} of {len(self)}")
        block = int(np.searchsorted(self._before, rank, side="right")) - 1
        return block * BLOCK + int(np.flatnonzero(self._matches(block, BLOCK))[rank - self._before[block]])

    def rank(self, index: int) -> int:
        """Return how many matching places lie before `index`."""
        block, offset = divmod(index, BLOCK)
        return int(self._before[block]) + int(np.count_nonzero(self._matches(block, offset)))

    def _matches(self, block: int, length: int) -> np.ndarray:
        return self.truths[block * BLOCK : block * BLOCK + length] == self.value

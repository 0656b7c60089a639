"""Copies of models, one set a device, of which a thread takes a free one for a batch.

The content of a batch does not depend on the number of devices: on devices of one kind the results are those of one.
"""

from __future__ import annotations

import copy
import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel

T = TypeVar("T")


class ReplicaPool(Generic[T]):
    """Equal replicas for the threads of a pool; a thread waits where all are taken."""

    def __init__(self, replicas: Sequence[T], threads: int = 0) -> None:
        """Offer each replica to one thread at a time, or to equally many, so that none of `threads` waits."""
        self.replicas = replicas
        self._free: queue.SimpleQueue[T] = queue.SimpleQueue()
        for _ in range(max(1, -(-threads // len(replicas)))):
            for replica in replicas:
                self._free.put(replica)

    @contextmanager
    def take(self) -> Iterator[T]:
        """Give a free replica, which is free again afterwards."""
        replica = self._free.get()
        try:
            yield replica
        finally:
            self._free.put(replica)


def copy_models(models: Sequence[ClipModel], devices: Sequence[str]) -> list[list[ClipModel]]:
    """Return the models as they are, and copies of them all on each device but the first, which is theirs."""
    return [list(models), *([_copy_model(model, device) for model in models] for device in devices[1:])]


def _copy_model(model: ClipModel, device: str) -> ClipModel:
    head = model.head and copy.deepcopy(model.head).to(device)
    return replace(model, clip=copy.deepcopy(model.clip).to(device), head=head)

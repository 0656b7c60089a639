"""Checkpoints that do not stop the training: copied to memory of the host, then written by a thread beside it.

On a GPU the copies are queued behind the step that made the weights, into pinned memory, and the thread waits for them:
the next step's kernels run after them. The memory, as large as a file, serves every save of the run. A checkpoint waits
until the last one is on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compclip.train import checkpoint

THREAD = "checkpoint"  # name of the thread that writes


class CheckpointWriter:
    """Write checkpoints to a folder, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._copies: dict[str, Tensor] = {}
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(self, step: int, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
        """Copy the tensors, which may change afterwards, and begin to write them; wait for the last checkpoint first.

        Raises UserError where that could not be written.
        """
        self.finish()
        wait_for_copies = self._copy(tensors)
        self._thread = threading.Thread(target=self._write, args=(step, dict(header), wait_for_copies), name=THREAD)
        self._thread.start()

    def check(self) -> None:
        """Raise, once, the error of a checkpoint that could not be written; wait for none."""
        if error := self._error:
            self._error = None
            raise error

    def finish(self) -> None:
        """Wait until the last checkpoint is on disk. Raises UserError where it could not be written."""
        if self._thread:
            self._thread.join()
            self._thread = None
        self.check()

    def close(self) -> None:
        """Do as `finish`, and give the memory back."""
        try:
            self.finish()
        finally:
            self._copies = {}

    def _copy(self, tensors: Mapping[str, Tensor]) -> Callable[[], object]:
        """Begin to copy the tensors; return a function that waits until all are copied."""
        copies, devices = self._copies, {tensor.device for tensor in tensors.values() if tensor.device.type != "cpu"}
        self._copies = {name: copies[name] if name in copies else _like(value) for name, value in tensors.items()}
        for name, tensor in tensors.items():
            self._copies[name].copy_(tensor, non_blocking=True)
        events = [torch.get_device_module(device).Event() for device in devices]
        for event in events:
            event.record()
        return lambda: [event.synchronize() for event in events]

    def _write(self, step: int, header: Mapping[str, Any], wait_for_copies: Callable[[], object]) -> None:
        try:
            wait_for_copies()
            checkpoint.write_tensors(self.folder, step, self._copies, header)
        except BaseException as error:  # the training thread raises it
            self._error = error


def _like(tensor: Tensor) -> Tensor:
    """Return memory of the host for a tensor, pinned if it comes from a GPU."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.device.type != "cpu")

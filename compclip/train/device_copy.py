"""The copy of a batch to its device, which on a GPU runs while the step before still computes.

The host enqueues a step without waiting for the device. So when it has the next batch, the device is busy; on a stream
of its own the copy does not queue behind that work. Never measured: there was no GPU.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from compclip.train.batch import Batch


def copy_batch(batch: Batch, device: torch.device) -> Batch:
    """Return the batch on a device; kernels that are enqueued from now on see it whole."""
    if device.type != "cuda":
        return batch.to(device)
    compute, copying = torch.cuda.current_stream(device), _copy_stream(device)
    with torch.cuda.stream(copying):
        copy = batch.to(device)
    compute.wait_stream(copying)
    for tensor in copy.tensors():
        tensor.record_stream(compute)  # its memory is not given away before the step has used it
    return copy


@functools.cache
def _copy_stream(device: torch.device) -> Any:
    return torch.cuda.Stream(device)

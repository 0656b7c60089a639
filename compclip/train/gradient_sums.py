"""Gradients summed over the processes of a run, in buckets that start while the backward pass still runs.

A bucket's sum starts once the pass has completed its gradients and the buckets before it have started: every process
sends the same messages in the same order, also for a parameter that it does not use. The first bucket holds the last
parameters, whose gradients are ready first. DDP does the same, but knows nothing of unused parameters or of gradients
that come in parts (accumulate.py), for which only the last part's pass is watched. Scale and bias are of the loss,
whose own messages must come first: no sum starts by them. With one process all of this does nothing.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from compclip.train import distributed

BUCKET_BYTES = 25 * 2**20  # of gradients that are summed in one message, as in DDP
IN_FLIGHT = 2  # buckets at most: so much memory is needed beside the gradients
OF_THE_LOSS = ("logit_scale", "logit_bias")


class GradientSums:
    """The sums of a module's gradients in one step; every process makes them with the same module."""

    def __init__(self, module: nn.Module) -> None:
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad] if dist.is_initialized() else []
        # an embedding's gradient is a tower's last, wherever the module names it
        latest_first = sorted(enumerate(named), key=lambda item: ("embedding" in item[1][0], -item[0]))
        self._parameters = [p for _, (_, p) in latest_first]
        self._watched = [p for name, p in named if name not in OF_THE_LOSS]
        self._dtype = max((p.dtype for p in self._parameters), key=lambda dtype: dtype.itemsize, default=torch.float32)
        self._waiting = deque(_split_into_buckets(self._parameters, BUCKET_BYTES // self._dtype.itemsize))
        self._in_flight: deque[tuple[list[nn.Parameter], Tensor, Any]] = deque()
        self._ready: set[nn.Parameter] = set()

    @contextlib.contextmanager
    def watch_backward(self) -> Iterator[None]:
        """Start sums as the backward pass inside completes gradients; nothing may be added to them after it."""
        handles = [p.register_post_accumulate_grad_hook(self._add_ready) for p in self._watched]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def finish(self) -> None:
        """Sum the rest and wait for all; a parameter without a gradient on every process keeps none."""
        if not self._parameters:
            return
        has_gradient = [p.grad is not None for p in self._parameters]
        while self._waiting:
            self._start_next()
        while self._in_flight:
            self._complete_oldest()
        for p, is_used in zip(self._parameters, distributed.are_set_anywhere(*has_gradient), strict=True):
            if not is_used:
                p.grad = None

    def _add_ready(self, parameter: Tensor) -> None:
        self._ready.add(parameter)  # type: ignore[arg-type]
        while self._waiting and self._ready.issuperset(self._waiting[0]):
            self._start_next()

    def _start_next(self) -> None:
        if len(self._in_flight) == IN_FLIGHT:
            self._complete_oldest()
        bucket = self._waiting.popleft()
        flat = torch.cat([_gradient(p).flatten().to(self._dtype) for p in bucket])
        self._in_flight.append((bucket, flat, dist.all_reduce(flat, async_op=True)))

    def _complete_oldest(self) -> None:
        bucket, flat, message = self._in_flight.popleft()
        message.wait()
        with torch.no_grad():
            for p, total in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                _gradient(p).copy_(total.view_as(p))


def sum_gradients(module: nn.Module) -> None:
    """Sum gradients over processes in place; a parameter without one on every process keeps none."""
    GradientSums(module).finish()


def average_gradients(module: nn.Module) -> None:
    """Average gradients over processes, of parameters in a loss that every process computes for the whole batch."""
    sum_gradients(module)
    for p in module.parameters():
        if dist.is_initialized() and p.grad is not None:
            p.grad /= dist.get_world_size()


def _gradient(parameter: nn.Parameter) -> Tensor:
    """Return a parameter's gradient, zeros where it has none yet."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _split_into_buckets(parameters: Sequence[nn.Parameter], largest: int) -> Iterator[list[nn.Parameter]]:
    """Yield the parameters in turn, at most `largest` numbers together; a larger one alone."""
    bucket: list[nn.Parameter] = []
    for parameter in parameters:
        if bucket and sum(p.numel() for p in bucket) + parameter.numel() > largest:
            yield bucket
            bucket = []
        bucket.append(parameter)
    if bucket:
        yield bucket

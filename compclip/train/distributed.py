"""A run on several processes: who this one is, and a batch's features over all of them.

B images of this process, M concepts, T text positions. Every process encodes its share of a batch, gathers the
features of all, and computes the whole loss: value and slope are those of one process. The towers' activations shrink
with the number of processes, and so do terms of patches and tokens (`own_rows`); the gathered features and the loss's
other matrices do not. Gradients are summed by `GradientSums`. What the host decides by travels by the host: no
process waits for its GPU to read a flag. With one process all of this does nothing.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from compclip.interface.features import Features, Kind, change_rows, pad_text

T = TypeVar("T")
_host_groups: dict[Any, dist.ProcessGroup] = {}  # of the default group, where that one is a GPU's


@dataclass(frozen=True)
class Process:
    """This process among those of its run."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0


def process_device() -> str:
    """Return the device of this process."""
    return f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else "cpu"


def current_process() -> Process:
    """Return this process, as torch.distributed knows it."""
    return Process(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else Process()


def open_host_group(patience: timedelta) -> None:
    """Connect the processes by the host beside a default group of NCCL, whose messages wait for the GPU.

    Every process calls this. `patience`: how long one waits for the others' messages.
    """
    group: Any = dist.new_group(backend="gloo", timeout=patience)
    _host_groups[dist.group.WORLD] = group


def close_host_group() -> None:
    """Let go of the host's group, which then ends with the default one.

    Its threads end with its last reference, and a tensor that one of them still holds while Python shuts down aborts
    the process, after a run that succeeded.
    """
    _host_groups.clear()


def _host_group() -> dist.ProcessGroup | None:
    """Return the group whose messages travel by the host; None: the default one."""
    return _host_groups.get(dist.group.WORLD)


def broadcast_first(value: T) -> T:
    """Return rank 0's value on every process."""
    if not dist.is_initialized():
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0, group=_host_group(), device=torch.device("cpu"))
    return box[0]


def gather_objects(value: T) -> list[T]:
    """Return every process's value, by rank."""
    if not dist.is_initialized():
        return [value]
    values: list = [None] * dist.get_world_size()
    dist.all_gather_object(values, value, group=_host_group())
    return values


def are_set_anywhere(*flags: bool) -> list[bool]:
    """Return for each flag whether it is set on any process."""
    if not dist.is_initialized():
        return list(flags)
    flags_tensor = torch.tensor(flags, dtype=torch.uint8)
    dist.all_reduce(flags_tensor, dist.ReduceOp.MAX, group=_host_group())
    return flags_tensor.bool().tolist()


def _gather_numbers(*numbers: int) -> list[tuple[int, ...]]:
    """Return for each number those of all processes, by rank."""
    local_numbers = torch.tensor(numbers)
    numbers_by_rank = [torch.empty_like(local_numbers) for _ in range(dist.get_world_size())]
    dist.all_gather(numbers_by_rank, local_numbers, group=_host_group())
    return [tuple(column) for column in torch.stack(numbers_by_rank).T.tolist()]


class _Gather(torch.autograd.Function):
    """Rows of all processes by rank; each keeps the slope of its own rows."""

    @staticmethod
    def forward(ctx: Any, local_rows: Tensor, sizes: tuple[int, ...]) -> Tensor:
        ctx.start = sum(sizes[: dist.get_rank()])
        ctx.length = len(local_rows)
        padded_rows = local_rows.new_zeros(max(sizes), *local_rows.shape[1:])
        padded_rows[: len(local_rows)] = local_rows
        rows_by_rank = [torch.empty_like(padded_rows) for _ in sizes]
        if padded_rows.numel():
            dist.all_gather(rows_by_rank, padded_rows)
        return torch.cat([rows[:size] for rows, size in zip(rows_by_rank, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        return slope[ctx.start : ctx.start + ctx.length].contiguous(), None


class ChangedSlope(torch.autograd.Function):
    """A tensor as it is, whose slope a function changes."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.change = change
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        return ctx.change(slope), None


def _share_parameter(parameter: Tensor) -> Tensor:
    """Return a parameter in every process's loss: its slope is whole on each, and the sum over them counts it once."""
    return ChangedSlope.apply(parameter, lambda slope: slope / dist.get_world_size())


def gather_features(f: Features, own_tokens: bool = False) -> Features:
    """Return the features of the whole batch from each process's share; concepts and text lengths may differ.

    `own_tokens`: patches and tokens stay those of this process's samples.
    """
    if not dist.is_initialized():
        return f
    positions = 0 if f.token_BTD is None or own_tokens else f.token_BTD.shape[1]
    images, concepts, texts = _gather_numbers(len(f.image_BD), len(f.owner_M), positions)
    f = replace(f, owner_M=f.owner_M + sum(images[: dist.get_rank()]), images_by_rank=images)
    f = f if own_tokens else pad_text(f, max(texts))
    sizes = {"image": images, "concept": concepts}

    def gather(_name: str, tensor: Tensor, kind: Kind) -> Tensor:
        return tensor if own_tokens and kind.token_level else gather_rows(tensor, sizes[kind.row])

    bias = None if f.bias is None else _share_parameter(f.bias)
    return replace(change_rows(f, gather), scale=_share_parameter(f.scale), bias=bias)


def gather_rows(local_rows: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Return the rows of all processes, `sizes` of each; each process keeps the slope of its own."""
    if local_rows.dtype == torch.bool:
        return _Gather.apply(local_rows.to(torch.uint8), sizes).bool()
    return _Gather.apply(local_rows, sizes)


# Gradients summed over the processes of a run, in buckets that start while the backward pass still runs.
#
# A bucket's sum starts once the pass has completed its gradients and the buckets before it have started: every process
# sends the same messages in the same order, also for a parameter that it does not use. The first bucket holds the last
# parameters, whose gradients are ready first. DDP does the same, but knows nothing of unused parameters or of gradients
# that come in parts (accumulate.py), for which only the last part's pass is watched. Scale and bias are of the loss,
# whose own messages must come first: no sum starts by them. With one process all of this does nothing.

BUCKET_BYTES = 25 * 2**20  # of gradients that are summed in one message, as in DDP
IN_FLIGHT = 2  # buckets at most: so much memory is needed beside the gradients
OF_THE_LOSS = ("logit_scale", "logit_bias")


class GradientSums:
    """The sums of a module's gradients in one step; every process makes them with the same module."""

    def __init__(self, module: nn.Module) -> None:
        named = []
        if dist.is_initialized():
            named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        # an embedding's gradient is a tower's last, wherever the module names it
        latest_first = named[::-1]
        latest_first.sort(key=lambda item: "embedding" in item[0])
        self._parameters = list(dict(latest_first).values())
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
        for p, is_used in zip(self._parameters, are_set_anywhere(*has_gradient), strict=True):
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


def average_gradients(module: nn.Module) -> None:
    """Average gradients over processes, of parameters in a loss that every process computes for the whole batch."""
    GradientSums(module).finish()
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
    size = 0
    for parameter in parameters:
        if bucket and size + parameter.numel() > largest:
            yield bucket
            bucket = []
            size = 0
        bucket.append(parameter)
        size += parameter.numel()
    if bucket:
        yield bucket

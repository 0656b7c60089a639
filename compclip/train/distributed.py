"""A run on several processes: who this one is, and a batch's features over all of them.

B images of this process, M concepts, T text positions. Every process encodes its share of a batch, gathers the
features of all, and computes the whole loss: value and slope are those of one process. The towers' activations shrink
with the number of processes, and so do terms of patches and tokens (`own_rows`); the gathered features and the loss's
other matrices do not. Gradients are summed by `gradient_sums`. What the host decides by travels by the host: no
process waits for its GPU to read a flag. With one process all of this does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

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
    return [bool(flag) for flag in flags_tensor.tolist()]


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
        ctx.start, ctx.length = sum(sizes[: dist.get_rank()]), len(local_rows)
        padded_rows = local_rows.new_zeros(max(sizes), *local_rows.shape[1:])
        padded_rows[: len(local_rows)] = local_rows
        rows_by_rank = [torch.empty_like(padded_rows) for _ in sizes]
        if padded_rows.numel():
            dist.all_gather(rows_by_rank, padded_rows)
        return torch.cat([rows[:size] for rows, size in zip(rows_by_rank, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        return slope[ctx.start : ctx.start + ctx.length].contiguous(), None


class _SharedParameter(torch.autograd.Function):
    """A parameter in every process's loss: its slope is whole on each, and the sum over them counts it once."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return slope / dist.get_world_size()


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

    bias = None if f.bias is None else _SharedParameter.apply(f.bias)
    return replace(change_rows(f, gather), scale=_SharedParameter.apply(f.scale), bias=bias)


def gather_rows(local_rows: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Return the rows of all processes, `sizes` of each; each process keeps the slope of its own."""
    if local_rows.dtype == torch.bool:
        return _Gather.apply(local_rows.to(torch.uint8), sizes).bool()
    return _Gather.apply(local_rows, sizes)

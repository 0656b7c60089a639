"""A run on several processes: who this one is, and a batch's features and gradients over all of them.

B images of this process, M concepts, T text positions. Every process encodes its share of a batch, gathers the
features of all, and computes the whole loss: value and slope are those of one process. The towers' activations shrink
with the number of processes; the gathered features and the loss's own matrices do not. Gradients are summed in one
message after the backward pass: DDP's buckets would overlap with it, but know nothing of a parameter that one process
does not use, nor of gradients that come in parts (accumulate.py). With one process all of this does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from compclip.interface.features import Features, field_kinds, pad_text

T = TypeVar("T")


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


def broadcast_first(value: T) -> T:
    """Return rank 0's value on every process."""
    if not dist.is_initialized():
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0, device=torch.device(process_device()))
    return box[0]


def gather_objects(value: T) -> list[T]:
    """Return every process's value, by rank."""
    if not dist.is_initialized():
        return [value]
    values: list = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def are_set_anywhere(*flags: bool) -> list[bool]:
    """Return for each flag whether it is set on any process."""
    if not dist.is_initialized():
        return list(flags)
    flags_tensor = torch.tensor([int(flag) for flag in flags], device=process_device())
    dist.all_reduce(flags_tensor, dist.ReduceOp.MAX)
    return [bool(flag) for flag in flags_tensor.tolist()]


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


def gather_features(f: Features) -> Features:
    """Return the features of the whole batch from each process's share; concepts and text lengths may differ."""
    if not dist.is_initialized():
        return f
    positions = 0 if f.token_BTD is None else f.token_BTD.shape[1]
    local_sizes = torch.tensor((len(f.image_BD), len(f.owner_M), positions), device=f.image_BD.device)
    sizes_by_rank = [torch.empty_like(local_sizes) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes_by_rank, local_sizes)
    images, concepts, texts = (tuple(column) for column in torch.stack(sizes_by_rank).T.tolist())
    f = pad_text(replace(f, owner_M=f.owner_M + sum(images[: dist.get_rank()])), max(texts))
    sizes = {"image": images, "concept": concepts}
    rows: dict[str, Any] = {
        name: _gather_rows(getattr(f, name), sizes[kind.row])
        for name, kind in field_kinds().items()
        if getattr(f, name) is not None
    }
    bias = None if f.bias is None else _SharedParameter.apply(f.bias)
    return replace(f, **rows, scale=_SharedParameter.apply(f.scale), bias=bias)


def _gather_rows(local_rows: Tensor, sizes: tuple[int, ...]) -> Tensor:
    if local_rows.dtype == torch.bool:
        return _Gather.apply(local_rows.to(torch.uint8), sizes).bool()
    return _Gather.apply(local_rows, sizes)


def sum_gradients(module: nn.Module) -> None:
    """Sum gradients over processes in one message; a parameter without one on every process keeps none."""
    if not dist.is_initialized():
        return
    trained = [p for p in module.parameters() if p.requires_grad]
    have = torch.tensor([p.grad is not None for p in trained], dtype=torch.uint8, device=trained[0].device)
    dist.all_reduce(have, dist.ReduceOp.MAX)
    used = [p for p, h in zip(trained, have.tolist(), strict=True) if h]
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in used])
    dist.all_reduce(flat)
    for p, gradient in zip(used, flat.split([p.numel() for p in used]), strict=True):
        p.grad = gradient.view_as(p).to(p.dtype, copy=True)


def average_gradients(module: nn.Module) -> None:
    """Average gradients over processes, of parameters in a loss that every process computes for the whole batch."""
    sum_gradients(module)
    for p in module.parameters():
        if dist.is_initialized() and p.grad is not None:
            p.grad /= dist.get_world_size()

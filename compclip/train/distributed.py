"""A run on several processes: who this one is, and a batch's features and gradients over all of them.

B images of this process, M concepts, T text positions. Every process encodes its share of a batch, gathers the
features of all, and computes the whole loss: value and slope are those of one process. The towers' activations shrink
with the number of processes; the gathered features and the loss's own matrices do not. Gradients are summed in one
message after the backward pass: DDP's buckets would overlap with it, but know nothing of a parameter that one process
does not use, nor of gradients that come in parts (accumulate.py). With one process all of this does nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from compclip.base.errors import UserError
from compclip.runs import machine
from compclip.train import liveness
from compclip.train.features import Features, kinds, padded

T = TypeVar("T")
# Rank 0 alone scores and writes; the others wait for it that long at most, while it gives signs of life.
PATIENCE = timedelta(hours=2)
FIRST_PORT, PORTS = 20_000, 12_000  # below what systems hand out by themselves


@dataclass(frozen=True)
class Process:
    """This process among those of its run."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0


def process() -> Process:
    """From torchrun's variables, or those of a SLURM step with several tasks; else the only process of its run."""
    env = os.environ
    if "RANK" in env and "WORLD_SIZE" in env:
        return Process(int(env["RANK"]), int(env["WORLD_SIZE"]), int(env.get("LOCAL_RANK", 0)))
    if int(env.get("SLURM_STEP_NUM_TASKS", 1)) > 1:
        return Process(int(env["SLURM_PROCID"]), int(env["SLURM_STEP_NUM_TASKS"]), int(env["SLURM_LOCALID"]))
    return Process()


@contextlib.contextmanager
def session() -> Iterator[Process]:
    """Connect the processes of a run, if it has several; they part at the end.

    Raises UserError where a GPU is asked for and none is seen: training on a CPU would take days, in silence.
    """
    if not torch.cuda.is_available() and (why := machine.why_gpu()):
        raise UserError(
            f"{why}, and torch sees none: {_why_blind()}; mend that, or set {machine.GPU_VARIABLE}= to train on the CPU"
        )
    here = process()
    if here.world == 1 or dist.is_initialized():
        yield here
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(here.local_rank % torch.cuda.device_count())
    store, _, _ = next(dist.rendezvous(_meeting_point(), here.rank, here.world, timeout=PATIENCE))
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", store=store,
                            rank=here.rank, world_size=here.world, timeout=PATIENCE)  # fmt: skip
    try:
        with liveness.watching(store, here.rank, here.world):
            yield here
    finally:
        dist.destroy_process_group()


def _why_blind() -> str:
    """Why torch sees no GPU, as far as it says so."""
    if not torch.version.cuda:
        return f"torch {torch.__version__} is built without CUDA"
    return f"torch is built for CUDA {torch.version.cuda}, and `nvidia-smi` says whether its driver is there"


def _meeting_point() -> str:
    """torchrun's address, or a port of the first node of the SLURM step, by the job's number."""
    env = os.environ
    if "MASTER_ADDR" in env and "MASTER_PORT" in env:
        return f"tcp://{env['MASTER_ADDR']}:{env['MASTER_PORT']}"
    if "SLURM_JOB_ID" not in env:
        raise UserError("RANK and WORLD_SIZE without MASTER_ADDR and MASTER_PORT: start the processes with torchrun")
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")
    return f"tcp://{_first_host(nodes)}:{FIRST_PORT + int(env['SLURM_JOB_ID']) % PORTS}"


def _first_host(nodes: str) -> str:
    """The first of a list of nodes such as `gpu[03-05,9],cpu1`."""
    if "[" not in nodes:
        return nodes.partition(",")[0]
    with contextlib.suppress(OSError):
        done = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.split():
            return done.stdout.split()[0]
    return re.sub(r"\[(\w+)[^\]]*\].*", r"\1", nodes)


def device() -> str:
    """The device of this process."""
    return f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else "cpu"


def current() -> Process:
    """This process, as the session knows it."""
    return Process(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else Process()


def agreed(value: T) -> T:
    """Rank 0's value, on every process."""
    if not dist.is_initialized():
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0, device=torch.device(device()))
    return box[0]


def of_all(value: T) -> list[T]:
    """Every process's value, by rank."""
    if not dist.is_initialized():
        return [value]
    found: list = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found


def anywhere(flag: bool) -> bool:
    """Whether `flag` is set on any process."""
    if not dist.is_initialized():
        return flag
    told = torch.tensor(int(flag), device=device())
    dist.all_reduce(told, dist.ReduceOp.MAX)
    return bool(told.item())


class _Gather(torch.autograd.Function):
    """Rows of all processes by rank; each keeps the slope of its own rows."""

    @staticmethod
    def forward(ctx, own: Tensor, sizes: tuple[int, ...]) -> Tensor:
        ctx.start, ctx.length = sum(sizes[: dist.get_rank()]), len(own)
        filled = own.new_zeros(max(sizes), *own.shape[1:])
        filled[: len(own)] = own
        parts = [torch.empty_like(filled) for _ in sizes]
        if filled.numel():
            dist.all_gather(parts, filled)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx, slope: Tensor):
        return slope[ctx.start : ctx.start + ctx.length].contiguous(), None


class _Shared(torch.autograd.Function):
    """A parameter in every process's loss: its slope is whole on each, and the sum over them counts it once."""

    @staticmethod
    def forward(ctx, value: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx, slope: Tensor):
        return slope / dist.get_world_size()


def whole(f: Features) -> Features:
    """The features of the whole batch, from each process's share of it; concepts and text lengths may differ."""
    if not dist.is_initialized():
        return f
    at = f.image_BD.device
    positions = 0 if f.token_BTD is None else f.token_BTD.shape[1]
    told = _sizes((len(f.image_BD), len(f.owner_M), positions), at)
    images, concepts = (tuple(t[i] for t in told) for i in (0, 1))
    f = padded(replace(f, owner_M=f.owner_M + sum(images[: dist.get_rank()])), max(t[2] for t in told))
    sizes = {"image": images, "concept": concepts}
    values = {name: _gathered(getattr(f, name), sizes[kind.row]) for name, kind in kinds().items()
              if getattr(f, name) is not None}  # fmt: skip
    bias = None if f.bias is None else _Shared.apply(f.bias)
    return replace(f, **values, scale=_Shared.apply(f.scale), bias=bias)


def _gathered(own: Tensor, sizes: tuple[int, ...]) -> Tensor:
    if own.dtype == torch.bool:
        return _Gather.apply(own.to(torch.uint8), sizes).bool()
    return _Gather.apply(own, sizes)


def _sizes(own: tuple[int, ...], at: torch.device) -> list[tuple[int, ...]]:
    mine = torch.tensor(own, device=at)
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, mine)
    return [tuple(part.tolist()) for part in parts]


def sum_gradients(module: nn.Module) -> None:
    """Gradients summed over processes in one message; a parameter without one on every process keeps none."""
    if not dist.is_initialized():
        return
    trained = [p for p in module.parameters() if p.requires_grad]
    _sum_gradients(trained)


def mean_gradients(module: nn.Module) -> None:
    """Gradients averaged over processes: of parameters in a loss of the whole batch that every process computes."""
    if not dist.is_initialized():
        return
    trained = [p for p in module.parameters() if p.requires_grad]
    _sum_gradients(trained)
    for p in trained:
        if p.grad is not None:
            p.grad /= dist.get_world_size()


def _sum_gradients(trained: list[nn.Parameter]) -> None:
    have = torch.tensor([p.grad is not None for p in trained], dtype=torch.uint8, device=trained[0].device)
    dist.all_reduce(have, dist.ReduceOp.MAX)
    used = [p for p, h in zip(trained, have.tolist(), strict=True) if h]
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in used])
    dist.all_reduce(flat)
    for p, part in zip(used, flat.split([p.numel() for p in used]), strict=True):
        p.grad = part.view_as(p).to(p.dtype, copy=True)

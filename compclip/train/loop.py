"""The training loop: read top to bottom, plain torch."""

from __future__ import annotations

import contextlib
import functools
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.model import towers
from compclip.model.backbone import Model
from compclip.train import (
    accumulate,
    checkpoint,
    distributed,
    extras,
    loader,
    method_loss,
    optimiser,
    throughput,
    view_shares,
)
from compclip.train import (
    log as train_log,
)
from compclip.train.batch import Views
from compclip.train.extras import Extras
from compclip.train.steps import Step
from compclip.train.views import Rows

if TYPE_CHECKING:
    from compclip.config.sections import Run

OnStep = Callable[[int, int, Model], None]  # optimiser steps done, of how many, and the model
Counts = dict[str, dict[str, int]]  # by kind (`checkpoint.COUNTS`), then by reason or by part
# The system's and a person's way to say stop, and those of clusters before a time limit or a preemption.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


def nothing(_done: int, _steps: int, _model: Model) -> None:
    """What is done before a step where nobody looks on."""


def train(run: Run, model: Model, rows: Rows, work: Path, on_step: OnStep = nothing) -> Counts:
    """Train `model` in place, resuming from `work` if there is something; gives its counts, by kind.

    Every process of the run calls this with its own rows; the first alone writes, and calls `on_step` before each step:
    it may look at the model, and must leave it and the generators as they are. Raises UserError when the loss is no
    longer finite, naming the step, and for a part of the method's views that no sample had.
    """
    method, cfg = plugins.find(plugins.METHODS, run.method_name), run.train
    steps, first = total_steps(cfg, rows.per_epoch), distributed.current().rank == 0
    device = next(model.clip.parameters()).device
    if cfg.precision == "bf16_weights":
        towers.cast_to_bfloat16(model.clip)
    frozen = optimiser.freeze(model.clip, cfg, run.cell.seed)
    beside = extras.of(method, run.method, model, run.cell.seed)
    adamw = optimiser.adamw(model.clip, cfg, beside.parameters())
    header = _resume(work, model, adamw, beside)
    log = (
        train_log.Log(work / "metrics.jsonl", header["step"], steps, cfg.batch_size, rows.per_epoch) if first else None
    )
    counts = {kind: dict(header.get(kind, {})) if first else {} for kind in checkpoint.COUNTS}
    step_of = accumulate.Step(model.clip, frozen, lambda: _autocast(device, cfg.precision), cfg.micro_batch, beside)
    meter = throughput.Meter(model.clip, frozen, torch.float32 if cfg.precision == "float32" else torch.bfloat16)

    def views_at(step: int) -> Views:
        return method.views(run.method, Step(step, rows.per_epoch))

    batches = loader.batches(rows, views_at, model, range(header["step"], steps), cfg.workers)
    model.clip.train()
    with _stop_flag() as stop, contextlib.closing(log) if log else contextlib.nullcontext():
        for step in range(header["step"], steps):
            if first:
                on_step(step, steps, model)
            with meter.waiting():
                batch = next(batches)
            for kind, numbers in counts.items():
                count(getattr(batch, kind), numbers)
            lr = optimiser.learning_rate(step, steps, cfg)
            adamw.zero_grad(set_to_none=True)
            seed_dropout(run.cell.seed, step, distributed.current().rank)
            at_step = Step(step, rows.per_epoch)
            placed = functools.partial(method_loss.compute, method, run.method_name, run.method, at_step)
            terms = step_of.gradients(batch, views_at(step), placed)
            norm = _update(model, adamw, terms, lr, cfg, step, beside)
            beside.after_step(model.clip)
            meter.add(batch, views_at(step))
            stopping = distributed.anywhere(stop.is_set) and step + 1 < steps
            done, logging = step + 1, (step + 1) % cfg.log_every_steps == 0 or step + 1 == steps
            judging = view_shares.is_due(done, cfg.batch_size, rows.per_epoch, steps)
            if logging or judging:
                total = _of_all(counts)
            if logging and log:
                shown = meter.shares() | view_shares.columns(total)
                log.write(done, terms, lr, model.clip.logit_scale.exp().item(), norm, shown)
            if judging:
                view_shares.check(total, run, done % rows.per_epoch == 0 or done == steps)
            if (step + 1) % cfg.checkpoint_every_steps == 0 or stopping or step + 1 == steps:
                _save(work, step + 1, model, adamw, counts, beside)
            if stopping:
                raise SystemExit(f"stopped by a signal after step {step + 1} of {steps}; the same command goes on")
    model.clip.float()
    return _of_all(counts)


def _resume(work: Path, model: Model, adamw: torch.optim.AdamW, beside: Extras) -> dict:
    """The newest complete checkpoint, the same one on every process."""
    header = checkpoint.read(work, model.clip, adamw, beside=beside) if distributed.current().rank == 0 else None
    step = distributed.agreed(header["step"] if header else 0)
    if step and not header:
        header = checkpoint.read(work, model.clip, adamw, step, beside)
    return header or {"step": 0}


def _save(work: Path, step: int, model: Model, adamw: torch.optim.AdamW, counts: Counts, beside: Extras) -> None:
    total = _of_all(counts)
    if distributed.current().rank == 0:
        checkpoint.write(work, step, model.clip, adamw, total, beside)


def seed_dropout(seed: int, step: int, rank: int) -> None:
    """Let torch draw, as patch dropout does, by seed, step and process alone: a resumed run draws the same."""
    torch.manual_seed(int(np.random.default_rng((seed, step, rank)).integers(2**63)))


def count(new: dict[str, int], into: dict[str, int]) -> None:
    """Add counts by reason."""
    for reason, number in new.items():
        into[reason] = into.get(reason, 0) + number


def _of_all(counts: Counts) -> Counts:
    """The counts of all processes together."""
    total: Counts = {kind: {} for kind in counts}
    for process_counts in distributed.of_all(counts):
        for kind, numbers in process_counts.items():
            count(numbers, total[kind])
    return total


def total_steps(cfg, per_epoch: int) -> int:
    """Optimiser steps of a run: whole batches of `epochs`, or `max_steps` where it is given."""
    return cfg.max_steps or max(1, round(cfg.epochs * per_epoch))


def _autocast(device: torch.device, precision: str):
    enabled = precision == "bf16"
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


def _update(
    model: Model, adamw: torch.optim.AdamW, terms: dict[str, Tensor], lr: float, cfg, step: int, beside: Extras
) -> float:
    """One optimiser step by the gradients that are there; gives their norm before clipping."""
    loss = sum(terms.values())
    if not torch.isfinite(loss):
        shown = method_loss.describe_infinite(terms)
        raise UserError(
            f"train: the loss is {loss.item()} at step {step + 1}: {shown}; lower train.lr={cfg.lr}, or mend that term"
        )
    for group in adamw.param_groups:
        group["lr"] = lr
    beside_clip = (p for _, p in beside.parameters())
    trained = [p for p in (*model.clip.parameters(), *beside_clip) if p.grad is not None]
    norm = torch.nn.utils.clip_grad_norm_(trained, cfg.grad_clip_norm or float("inf"))
    adamw.step()
    optimiser.clamp_scale(model.clip, cfg.max_logit_scale)
    return norm.item()


class _Stop:
    is_set = False


@contextlib.contextmanager
def _stop_flag() -> Iterator[_Stop]:
    """Signals set a flag; the loop saves between steps and leaves."""
    stop = _Stop()

    def handle(_signum, _frame) -> None:
        stop.is_set = True

    before = {s: signal.signal(s, handle) for s in STOP_SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

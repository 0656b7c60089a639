"""What a training run leaves behind: metrics.jsonl, checkpoints, counts of its samples, and its end by a signal."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from compclip.base.errors import UserError
from compclip.train import checkpoint, distributed, method_loss, view_shares
from compclip.train.log import MetricsLog
from compclip.train.loop import InfiniteLoss, Observer, Terms, TrainingState
from compclip.train.throughput import Meter

if TYPE_CHECKING:
    from compclip.config.grid import Run
    from compclip.interface.features import Features
    from compclip.interface.method import Method
    from compclip.interface.views import Step, Views
    from compclip.model.clip_model import ClipModel
    from compclip.train.batch import Batch

OnStep = Callable[[int, int, "ClipModel"], None]  # optimiser steps done, of how many, and the model
Counts = dict[str, dict[str, int]]  # by kind (`checkpoint.COUNTS`), then by reason or by part
# The system's and a person's way to say stop, and those of clusters before a time limit or a preemption.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


def do_nothing(_done: int, _steps: int, _model: ClipModel) -> None:
    """Do nothing before a training step (default callback)."""


@contextlib.contextmanager
def recording(run: Run, work: Path, on_step: OnStep = do_nothing) -> Iterator[Recorder]:
    """Give the recorder of a run that works in the folder `work`; a signal lets it save between steps and leave.

    Every process of the run calls this. The first alone writes, and calls `on_step` before each step: that may look at
    the model, and must leave it and the generators as they are. Raises UserError when the loss is no longer finite,
    naming the step.
    """
    recorder = Recorder(run, work, on_step)
    handlers = {number: signal.signal(number, recorder.handle_signal) for number in STOP_SIGNALS}
    try:
        yield recorder
    except InfiniteLoss as error:
        step, terms = error.args
        total = sum(term.item() for term in terms.values())
        raise UserError(
            f"train: the loss is {total} at step {step + 1}: {method_loss.describe_infinite(terms)}; "
            f"lower train.lr={run.train.lr}, or mend that term"
        ) from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if recorder.log:
            recorder.log.close()


class Recorder(Observer):
    """Record a run in its folder: what is written there is enough to go on from."""

    def __init__(self, run: Run, work: Path, on_step: OnStep) -> None:
        self.run, self.work, self.on_step = run, work, on_step
        self.is_first = distributed.current_process().rank == 0
        self.must_stop = False
        self.counts: Counts = {kind: {} for kind in checkpoint.COUNTS}
        self.log: MetricsLog | None = None

    def handle_signal(self, _number: int, _frame: object) -> None:
        """Stop after the step that is under way."""
        self.must_stop = True

    def start(self, state: TrainingState, steps: int, per_epoch: int) -> int:
        """Restore the newest checkpoint on every process; return its step."""
        self.state, self.steps, self.per_epoch, cfg = state, steps, per_epoch, self.run.train
        header = _restore(self.work, state)
        # the counts of a checkpoint are those of all processes: the first goes on from them
        self.counts = {kind: dict(header.get(kind, {})) if self.is_first else {} for kind in checkpoint.COUNTS}
        if self.is_first:
            path = self.work / "metrics.jsonl"
            self.log = MetricsLog(path, header["step"], steps, cfg.batch_size, per_epoch)
        dtype = torch.float32 if cfg.precision == "float32" else torch.bfloat16
        self.meter = Meter(state.model.clip, state.frozen, dtype)
        return header["step"]

    count_parts = staticmethod(view_shares.tally_parts)

    def compute_loss(self, method: Method, cfg: Any, step: Step, f: Features) -> Terms:
        """Return the terms; an error in the method's loss is one line with its place."""
        return method_loss.compute_loss(method, cfg, step, f)

    def before_batch(self, step: int) -> None:
        """Call `on_step` in the first process, and begin to measure how long the batch is waited for."""
        if self.is_first:
            self.on_step(step, self.steps, self.state.model)
        self.meter.begin_wait()

    def before_step(self, batch: Batch) -> None:
        """Count the samples of a batch by part, and its replaced pictures by reason."""
        self.meter.end_wait()
        for kind, numbers in self.counts.items():
            add_counts(getattr(batch, kind), numbers)

    def after_step(self, step: int, batch: Batch, views: Views, terms: Terms, lr: float, norm: float) -> None:
        """Log, check and save where due. Raises SystemExit after a signal, with all steps saved."""
        self.meter.add(batch, views)
        steps_done, cfg, per_epoch = step + 1, self.run.train, self.per_epoch
        at_end = steps_done == self.steps
        is_stopping = distributed.is_set_anywhere(self.must_stop) and not at_end
        logs = steps_done % cfg.log_every_steps == 0 or at_end
        checks = view_shares.is_due(steps_done, cfg.batch_size, per_epoch, self.steps)
        saves = steps_done % cfg.checkpoint_every_steps == 0 or is_stopping or at_end
        total = sum_over_processes(self.counts) if logs or checks or saves else {}
        if logs and self.log:
            shares = self.meter.shares() | view_shares.metric_columns(total)
            scale = self.state.model.clip.logit_scale.exp().item()
            self.log.write(steps_done, terms, lr, scale, norm, shares)
        if checks:
            view_shares.check_parts(total, self.run, steps_done % per_epoch == 0 or at_end)
        if saves and self.is_first:
            state = self.state
            checkpoint.write(self.work, steps_done, state.model.clip, state.adamw, total, state.extras)
        if is_stopping:
            raise SystemExit(f"stopped by a signal after step {steps_done} of {self.steps}; the same command goes on")


def _restore(work: Path, state: TrainingState) -> dict:
    """Restore the newest complete checkpoint, the same one on every process; return its header."""
    clip, header = state.model.clip, None
    if distributed.current_process().rank == 0:
        header = checkpoint.read(work, clip, state.adamw, extra_parts=state.extras)
    step = distributed.broadcast_first(header["step"] if header else 0)
    if step and not header:
        header = checkpoint.read(work, clip, state.adamw, step, state.extras)
    return header or {"step": 0}


def add_counts(new: Mapping[str, int], total: dict[str, int]) -> None:
    """Add counts by reason to `total`."""
    for reason, number in new.items():
        total[reason] = total.get(reason, 0) + number


def sum_over_processes(counts: Counts) -> Counts:
    """Return the counts of all processes together."""
    total: Counts = {kind: {} for kind in counts}
    for process_counts in distributed.gather_objects(counts):
        for kind, numbers in process_counts.items():
            add_counts(numbers, total[kind])
    return total

"""What a training run leaves behind: metrics.jsonl, checkpoints, counts of its samples, and its end by a signal.

A person sees its progress as a bar on a terminal, as plain lines elsewhere; a mistake in a method's loss is one line.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from compclip.base import messages
from compclip.base.ablation_parts import is_left_out, list_parts
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_text, write_atomic
from compclip.base.shared_folders import open_plain
from compclip.interface.method import load_method
from compclip.interface.views import PLAIN, Step
from compclip.runs.progress import Progress, describe_validation
from compclip.runs.run_folder import SHARE
from compclip.train import checkpoint, distributed, fine_tuning, throughput, view_shares
from compclip.train.checkpoint import CheckpointWriter
from compclip.train.fine_tuning import InfiniteLoss, Observer, StepNumbers, Terms, TrainingState
from compclip.train.throughput import Adviser, Meter, read_memory

if TYPE_CHECKING:
    from compclip.config.grid import Run
    from compclip.config.sections import Train
    from compclip.interface.features import Features
    from compclip.interface.method import Method
    from compclip.interface.views import Views
    from compclip.model.clip_model import ClipModel
    from compclip.train.batch import Batch
    from compclip.train.validation import Validator

OnStep = Callable[[int, int, "ClipModel"], None]  # optimiser steps done, of how many, and the model
Counts = dict[str, Counter[str]]  # by kind (`checkpoint.COUNTS`), then by reason or by part
# The system's and a person's way to say stop, and those of clusters before a time limit or a preemption.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
MANY_TURNS = 12 * 2**30  # after so many epochs a method that takes turns by steps or epochs is where it was
COMPILERS = ("torch._dynamo", "torch._inductor", "torch._functorch")  # whose errors are of `train.compile`


def do_nothing(_done: int, _steps: int, _model: ClipModel) -> None:
    """Do nothing before a training step (default callback)."""


@contextlib.contextmanager
def recording(
    run: Run, work: Path, on_step: OnStep = do_nothing, validator: Validator | None = None
) -> Iterator[Recorder]:
    """Give the recorder of a run that works in the folder `work`; a signal lets it save between steps and leave.

    Every process of the run calls this. The first alone writes, has the `validator`, and calls `on_step` before each
    step: that may look at the model, and must leave it and the generators as they are. However the run ends, its
    checkpoints are on disk behind the block. Raises UserError when the loss is no longer finite, naming the step, a
    checkpoint could not be written, or the GPU is out of memory.
    """
    recorder = Recorder(run, work, on_step, validator)
    handlers = {number: signal.signal(number, recorder.handle_signal) for number in STOP_SIGNALS}
    try:
        yield recorder
        recorder.writer.finish()
    except SystemExit:
        recorder.writer.finish()  # an error of it matters more than the signal
        raise
    except Exception as error:
        line = _describe_error(run, error)
        if not line:
            raise
        raise UserError(line) from error
    finally:
        with contextlib.suppress(UserError):  # the run ends by another one
            recorder.writer.close()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if recorder.log:
            recorder.log.close()


def _describe_error(run: Run, error: Exception) -> str:
    """Return the line for an error of a step that the run's settings explain; "" for others."""
    if isinstance(error, InfiniteLoss):
        step, terms = error.args
        values = {name: term.item() for name, term in terms.items()}
        infinite = [f"{name}={value}" for name, value in values.items() if not math.isfinite(value)]
        return (
            f"train: the loss is {sum(values.values())} at step {step + 1}: "
            f"{', '.join(infinite) or 'the sum of finite terms'}; lower train.lr={run.train.lr}, or repair that term"
        )
    if isinstance(error, torch.OutOfMemoryError):
        _, total_bytes = read_memory(torch.device(distributed.process_device()))
        return throughput.describe_out_of_memory(run, distributed.current_process().world, total_bytes, error)
    if type(error).__module__.startswith(COMPILERS):
        reason = one_line(str(error))[:200]
        return (
            f"train.compile=true: torch cannot compile this backbone's blocks here; set train.compile: false ({reason})"
        )
    return ""


class Recorder(Observer):
    """Record a run in its folder: what is written there is enough to go on from."""

    def __init__(self, run: Run, work: Path, on_step: OnStep, validator: Validator | None = None) -> None:
        self.run = run
        self.work = work
        self.on_step = on_step
        self.validator = validator
        self.is_first = distributed.current_process().rank == 0
        self.must_stop = False
        self.counts: Counts = {kind: Counter() for kind in checkpoint.COUNTS}
        self.log: MetricsLog | None = None
        self.writer = CheckpointWriter(work)
        self.arithmetic: dict[str, Any] = {}  # of the run's float32 products, as torch has it

    def handle_signal(self, _number: int, _frame: object) -> None:
        """Stop after the step that is under way."""
        self.must_stop = True

    def start(self, state: TrainingState, steps: int, per_epoch: int) -> int:
        """Restore the newest checkpoint on every process; return its step."""
        self.state = state
        self.steps = steps
        self.per_epoch = per_epoch
        cfg = self.run.train
        header = _restore(self.work, state)
        self.arithmetic = fine_tuning.describe_arithmetic()
        if self.is_first:
            # the counts of a checkpoint are those of all processes: the first goes on from them
            for kind, numbers in self.counts.items():
                numbers.update(header.get(kind, {}))
            self.log = MetricsLog(self.work / "metrics.jsonl", header["step"], steps, cfg.batch_size, per_epoch)
            warn_of_phases(self.run, steps, per_epoch)
            warn_of_stages(self.run, steps, per_epoch)
        if self.validator:
            self.validator.start(state.model, header["step"], steps)
        self.meter = Meter()
        self.adviser = Adviser(cfg, state.model.clip.logit_scale.device)
        self.saved_at = read_clock()
        return header["step"]

    count_parts = staticmethod(view_shares.tally_parts)

    def count_workers(self, cfg: Train, device: str, batch_bytes: int) -> int:
        """Return how many processes make batches ahead: as configured, else by the job's cores."""
        return throughput.count_workers(cfg.workers, device, batch_bytes)

    def compute_loss(self, method: Method, cfg: Any, step: Step, f: Features) -> Terms:
        """Return the terms. Raises UserError, with the place, where the loss fails or gives something else."""
        terms: Any = None
        cause = None
        try:
            terms = method.loss(f, cfg=cfg, step=step)
            fault = _find_fault(terms)
        except Exception as error:
            if isinstance(error, UserError | torch.OutOfMemoryError):
                raise
            cause = error
            fault = one_line(f"{type(error).__name__}: {error}")
        if not fault:
            return terms
        if cause:
            place = _locate_error(cause, method.module)
        else:
            place = f"{method.module.__file__}:{inspect.unwrap(method.loss).__code__.co_firstlineno}"
        raise UserError(f"{place}: {fault}; repair the loss of method {method.name!r}") from cause

    def before_batch(self, step: int) -> None:
        """Call `on_step` in the first process, and begin to measure how long the batch is waited for.

        Raises UserError where a checkpoint could not be written.
        """
        self.writer.check()
        if self.is_first:
            self.on_step(step, self.steps, self.state.model)
        if self.on_step is not do_nothing:
            distributed.broadcast_first(None)  # it may score: the others wait by the host, whose patience is longer
        self.meter.begin_wait()

    def before_step(self, batch: Batch) -> None:
        """Count the samples of a batch by part, and its replaced pictures by reason."""
        self.meter.end_wait()
        for kind, numbers in self.counts.items():
            numbers.update(batch.counts.get(kind, {}))

    def reads_step(self, step: int) -> bool:
        """Return whether a step is logged or saved."""
        steps_done = step + 1
        cfg = self.run.train
        at_end = steps_done == self.steps
        must_stop, is_due = distributed.are_set_anywhere(self.must_stop, self.is_first and self._is_due(steps_done))
        self.is_stopping = must_stop and not at_end
        self.logs = steps_done % cfg.log_every_steps == 0 or at_end
        self.saves = is_due or self.is_stopping or at_end
        return self.logs or self.saves

    def _is_due(self, steps_done: int) -> bool:
        """Return whether a checkpoint is due, by steps or by this process's clock."""
        every = self.run.train.checkpoint_every_steps
        seconds = 60 * self.run.train.checkpoint_every_min
        return (every > 0 and steps_done % every == 0) or 0 < seconds <= read_clock() - self.saved_at

    def after_step(self, step: int, batch: Batch, views: Views, numbers: StepNumbers | None, lr: float) -> None:
        """Log, check and save where due. Raises SystemExit after a signal; `recording` waits for the checkpoint."""
        steps_done = step + 1
        cfg = self.run.train
        per_epoch = self.per_epoch
        state = self.state
        checks = view_shares.is_due(steps_done, cfg.batch_size, per_epoch, self.steps)
        total = sum_over_processes(self.counts) if self.logs or checks or self.saves else {}
        if self.logs and self.log and numbers:
            part_shares = {SHARE + part: share for part, share in view_shares.shares(total).items()}
            shares = {"data_wait": self.meter.share(), **part_shares}
            measured = self.validator.measure(steps_done) if self.validator else {}
            self.log.write(steps_done, numbers, lr, shares | measured)
            self.adviser.look(self.meter.span_wait())
        if checks:
            view_shares.check_parts(total, self.run, steps_done % per_epoch == 0 or steps_done == self.steps)
        if self.saves and self.is_first:
            tensors = checkpoint.collect_tensors(state.model.clip, state.adamw, state.extras)
            self.writer.save(steps_done, tensors, total)
            self.saved_at = read_clock()
        if self.is_stopping:
            raise SystemExit(f"stopped by a signal after step {steps_done} of {self.steps}; the same command goes on")


def read_clock() -> float:
    """Return seconds of a clock that nobody sets."""
    return time.monotonic()


def warn_of_phases(run: Run, steps: int, per_epoch: int) -> None:
    """Warn of a run that ends before the first of its method's phases; not where a part of the method is left out."""
    method = load_method(run.method_name)
    if not hasattr(method.module, "phase") or any(
        is_left_out(run.method, name) for name in list_parts(type(run.method))
    ):
        return
    if all(method.phase(run.method, Step(step, per_epoch)) == PLAIN for step in range(steps)):
        messages.warn(
            f"methods.{run.cell.method}: in none of the {steps:,} steps does a part start anew or stand still; "
            "train longer, or let that begin earlier"
        )


def warn_of_stages(run: Run, steps: int, per_epoch: int) -> None:
    """Warn of a run that ends before its method's last stage, in which texts are drawn by other rules (curriculum)."""
    method = load_method(run.method_name)

    def list_texts(step: int) -> set[str]:
        negatives, positives = view_shares.name_texts(method.views(run.method, Step(step, per_epoch)))
        return {*negatives, *positives}

    missing = list_texts(steps - 1 + MANY_TURNS * per_epoch) - list_texts(steps - 1)
    if missing:
        messages.warn(
            f"methods.{run.cell.method}: {steps:,} steps end before the stage with {', '.join(sorted(missing))}; "
            "train longer, or let it begin earlier"
        )


def _restore(work: Path, state: TrainingState) -> dict:
    """Restore the newest complete checkpoint, the same one on every process; return its header."""
    clip = state.model.clip
    header = None
    if distributed.current_process().rank == 0:
        header = checkpoint.read(work, clip, state.adamw, extra_parts=state.extras)
    step = distributed.broadcast_first(header["step"] if header else 0)
    if step and not header:
        header = checkpoint.read(work, clip, state.adamw, step, state.extras)
    return header or {"step": 0}


def sum_over_processes(counts: Counts) -> Counts:
    """Return the counts of all processes together."""
    total: Counts = {kind: Counter() for kind in counts}
    for process_counts in distributed.gather_objects(counts):
        for kind, numbers in process_counts.items():
            total[kind].update(numbers)
    return total


def _locate_error(error: Exception, method: ModuleType) -> str:
    """Return file and line of the innermost call in the method's module or in others of its package."""
    package = method.__name__.rpartition(".")[0] or method.__name__
    location = str(method.__file__)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if f"{frame.f_globals.get('__name__')}.".startswith(f"{package}."):
            location = f"{frame.f_code.co_filename}:{line}"
    return location


def _find_fault(terms: Any) -> str:
    """Return what is wrong with the terms; "" for a dict of single numbers."""
    if not isinstance(terms, dict):
        return f"gives a {type(terms).__name__}; it must be a dict of named terms"
    for term, value in terms.items():
        if not isinstance(value, Tensor):
            return f"term {term!r} is a {type(value).__name__}; each is a tensor of one number"
        if value.numel() != 1:
            return f"term {term!r} has shape {list(value.shape)}; each is one number"
    return "" if terms else "gives no term"


class MetricsLog:
    """Appends one line a logging step; after a resume, lines behind the checkpoint are cut off first."""

    def __init__(self, path: Path, steps_done: int, steps: int, batch_size: int, per_epoch: int) -> None:
        self.path = path
        self.steps = steps
        self.batch_size = batch_size
        self.per_epoch = per_epoch
        self.first = steps_done
        self.started = time.perf_counter()
        self.bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=steps, initial=steps_done, unit="step", dynamic_ncols=True)
        text = read_text(path) if path.exists() else ""
        complete_lines = text[: text.rfind("\n") + 1].splitlines(keepends=True)  # a kill may cut the last one
        write_atomic(path, "".join(line for line in complete_lines if json.loads(line)["step"] <= steps_done))

    def write(self, step: int, numbers: StepNumbers, lr: float, others: dict[str, float] | None = None) -> None:
        """Append one line: each weighted term, their sum, learning rate, exp(logit_scale), gradient norm, speed;
        in float16 the factor of the loss and how many steps were skipped.

        `others`: shares of the time spent waiting for data and of samples with each part, what held-out pictures gave.
        """
        speed = (step - self.first) * self.batch_size / (time.perf_counter() - self.started)
        row = {
            "step": step,
            "epoch": step / self.per_epoch,
            "samples": step * self.batch_size,
            "loss": sum(numbers.terms.values()),
            **numbers.terms,
            "lr": lr,
            "logit_scale": numbers.scale,
            "grad_norm": numbers.norm,
            **numbers.loss_scale,
            "samples_per_second": round(speed, 1),
            **(others or {}),
            "time": round(time.time(), 3),
        }
        with open_plain(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")
        if self.bar:
            self.bar.set_postfix_str(f"loss {row['loss']:.4f}, {speed:.0f} samples/s")
            self.bar.update(step - self.bar.n)
        else:
            seconds_left = (self.steps - step) * self.batch_size / speed
            validation = describe_validation(row)
            print(Progress(step, self.steps, row["loss"], speed, seconds_left, validation).line(), flush=True)

    def close(self) -> None:
        """Close the progress bar."""
        if self.bar:
            self.bar.close()

"""Train one cell of the grid: `python -m compclip.train --cell fsc_clip-scenes-scenes-0`.

Reads params.yaml, the annotated data and the backbone's checkpoint; works in .work/<run key>/ and, when done, publishes
runs/<cell>/{config.yaml, checkpoint/, metrics.jsonl, environment.json}. A run that was killed goes on from its last
complete checkpoint and ends with the same bits; a run key that is finished is published without training. Where
`python -m compclip.launch` sent the run, this waits for its job and publishes what that made.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from compclip import (
    accumulate,
    backbone,
    checkpoint,
    distributed,
    environment,
    jobs,
    loader,
    modules,
    optimiser,
    progress,
    publish,
    throughput,
    watch,
)
from compclip.backbone import Model
from compclip.errors import UserError, entry
from compclip.sections import Run
from compclip.views import Maker, Rows

# The system's and a person's way to say stop, and those of clusters before a time limit or a preemption.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


def train(run: Run, model: Model, rows: Rows, work: Path) -> dict[str, int]:
    """Train `model` in place, resuming from `work` if there is something; gives the counts of replaced pictures.

    Every process of the run calls this with its own rows; the first alone writes. Raises UserError when the loss is no
    longer finite, naming the step.
    """
    method, cfg = modules.find("compclip.methods", run.method_name), run.train
    steps, first = total_steps(cfg, rows.per_epoch), distributed.current().rank == 0
    device = next(model.clip.parameters()).device
    frozen = optimiser.freeze(model.clip, cfg, run.cell.seed)
    adamw = optimiser.adamw(model.clip, cfg)
    header = _resume(work, model, adamw)
    log = progress.Log(work / "metrics.jsonl", header["step"], steps, cfg.batch_size, rows.per_epoch) if first else None
    dropped = dict(header["dropped"]) if first else {}
    step_of = accumulate.Step(model.clip, frozen, lambda: _autocast(device, cfg.precision), cfg.micro_batch)
    meter = throughput.Meter(model.clip, frozen, torch.bfloat16 if cfg.precision == "bf16" else torch.float32)
    views_at = functools.partial(method.views, run.method)
    batches = loader.batches(rows, views_at, model, range(header["step"], steps), cfg.workers)
    model.clip.train()
    with _stop_flag() as stop, contextlib.closing(log) if log else contextlib.nullcontext():
        for step in range(header["step"], steps):
            rows.before(step)
            with meter.waiting():
                batch = next(batches)
            count(batch.dropped, dropped)
            lr = optimiser.learning_rate(step, steps, cfg)
            adamw.zero_grad(set_to_none=True)
            terms = step_of.gradients(batch, views_at(step), functools.partial(method.loss, cfg=run.method, step=step))
            norm = _update(model, adamw, terms, lr, cfg, step)
            meter.add(batch, views_at(step))
            stopping = distributed.anywhere(stop.is_set) and step + 1 < steps
            if first and ((step + 1) % cfg.log_every_steps == 0 or step + 1 == steps):
                log.write(step + 1, terms, lr, model.clip.logit_scale.exp().item(), norm, meter.shares())
            if (step + 1) % cfg.checkpoint_every_steps == 0 or stopping or step + 1 == steps:
                _save(work, step + 1, model, adamw, dropped)
            if stopping:
                raise SystemExit(f"stopped by a signal after step {step + 1} of {steps}; the same command goes on")
    return _of_all(dropped)


def _resume(work: Path, model: Model, adamw: torch.optim.AdamW) -> dict:
    """The newest complete checkpoint, the same one on every process."""
    header = checkpoint.read(work, model.clip, adamw) if distributed.current().rank == 0 else None
    step = distributed.agreed(header["step"] if header else 0)
    if step and not header:
        header = checkpoint.read(work, model.clip, adamw, step)
    return header or {"step": 0, "dropped": {}}


def _save(work: Path, step: int, model: Model, adamw: torch.optim.AdamW, dropped: dict[str, int]) -> None:
    total = _of_all(dropped)
    if distributed.current().rank == 0:
        checkpoint.write(work, step, model.clip, adamw, {"dropped": total})


def count(new: dict[str, int], into: dict[str, int]) -> None:
    """Add counts by reason."""
    for reason, number in new.items():
        into[reason] = into.get(reason, 0) + number


def _of_all(dropped: dict[str, int]) -> dict[str, int]:
    """The counts of all processes together."""
    total: dict[str, int] = {}
    for counts in distributed.of_all(dropped):
        count(counts, total)
    return total


def total_steps(cfg, per_epoch: int) -> int:
    """Optimiser steps of a run: whole batches of `epochs`, or `max_steps` where it is given."""
    return cfg.max_steps or max(1, round(cfg.epochs * per_epoch))


def _autocast(device: torch.device, precision: str):
    enabled = precision == "bf16"
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


def _update(model: Model, adamw: torch.optim.AdamW, terms: dict[str, Tensor], lr: float, cfg, step: int) -> float:
    """One optimiser step by the gradients that are there; gives their norm before clipping."""
    loss = sum(terms.values())
    if not torch.isfinite(loss):
        raise UserError(f"train: the loss is {loss.item()} at step {step + 1}; lower train.lr={cfg.lr}")
    for group in adamw.param_groups:
        group["lr"] = lr
    trained = [p for p in model.clip.parameters() if p.grad is not None]
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


def run_cell(run: Run, publisher: publish.Publisher) -> None:
    """Publish a cell's files: made by its job where one was sent, else here, unless its run key is finished.

    Started by torchrun or srun, the processes share the training; the first one waits, locks and publishes.
    """
    with distributed.session() as here:
        if here.rank:
            complete(publisher)
            return
        follower = watch.Follower(publisher.work, run)
        _await_job(publisher, follower)
        with publisher.lock(follower):
            complete(publisher)
            publisher.publish()


def _await_job(publisher: publish.Publisher, show: Callable[[], None]) -> None:
    """Wait for the run's job, if it has one. Raises UserError with the reason where that ended without finishing.

    A process of this machine that is gone is no obstacle; a cluster's job that failed is one until it is sent again or
    given up: what needs a cluster should not start here by itself.
    """
    name, root = publisher.run.cell.name, publisher.work.parent.parent
    job = jobs.find(publisher.key, root)
    state = job.state() if job else jobs.DONE
    if state in (jobs.PENDING, jobs.RUNNING):
        print(f"{name}: {job.label()} trains this run ({state}); waiting for it", flush=True)
        state = jobs.wait(job, show)
    elif isinstance(job, jobs.LocalJob):
        return
    if state == jobs.FAILED and not publisher.finished():
        print("\n".join(f"    {line}" for line in jobs.last_lines(publisher.key, root)), file=sys.stderr)
        raise UserError(f"{name}: {job.label()} failed: {job.reason()}; launch it again to go on from its last "
                        "checkpoint, or `python -m compclip.launch PROFILE cancel` and it is trained here")


def plain_rows(maker: Maker, run: Run, _model: Model) -> Rows:
    """This process's part of the batches of a run."""
    here = distributed.current()
    return Rows(maker, run.train.batch_size, here.rank, here.world)


def complete(publisher: publish.Publisher, rows: Callable[[Maker, Run, Model], Rows] = plain_rows) -> None:
    """Train and write the finished files, unless the run key is finished.

    Every process of the run calls this; the first one holds the key's lock.
    """
    if not distributed.agreed(publisher.finished()):
        _train_and_finish(publisher.run, publisher, rows)


def _train_and_finish(run: Run, publisher: publish.Publisher, rows: Callable[[Maker, Run, Model], Rows]) -> None:
    started = time.time()
    torch.set_num_threads(run.train.threads)
    device = distributed.device()
    method = modules.find("compclip.methods", run.method_name)
    model = backbone.load(publisher.backbone_folder, device=device)
    dropped: dict[str, int] = {}
    if getattr(method, "TRAINS", True):
        if needs := getattr(method, "needs_bias", None):
            model.add_bias(run.method.init_bias) if needs(run.method) else None
        maker = Maker(publisher.train_set(), run.cell.seed, model.image_size)
        dropped = train(run, model, rows(maker, run, model), publisher.work)
    here = distributed.current()
    facts = {"processes": here.world, "dropped": dropped, "seconds": round(time.time() - started, 3)}
    if here.rank == 0:
        publisher.finish(model, environment.facts(device) | facts)


def main(argv: list[str]) -> int:
    """The `train` stage."""
    parser = argparse.ArgumentParser(prog="python -m compclip.train", description=__doc__.splitlines()[0])
    parser.add_argument("--cell", required=True, help="method-backbone-data-seed of the grid")
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    args = parser.parse_args(argv)
    publisher = publish.Publisher.of(args.params, args.overrides, args.cell)
    try:
        run_cell(publisher.run, publisher)
    except KeyboardInterrupt:
        print(f"{args.cell}: no longer waiting; its job goes on, and the same command waits again", file=sys.stderr)
        return 130
    if distributed.place().rank == 0:
        print(json.dumps({"cell": args.cell, "run_key": publisher.key}))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

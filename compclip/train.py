"""Train one cell of the grid: `python -m compclip.train --cell fsc_clip-scenes-scenes-0`.

Reads params.yaml, the annotated data and the backbone's checkpoint; works in .work/<run key>/ and, when done, publishes
runs/<cell>/{config.yaml, checkpoint/, metrics.jsonl, environment.json}. A run that was killed goes on from its last
complete checkpoint and ends with the same bits; a run key that is finished is published without training. Where
`python -m compclip.launch` sent the run, this waits for its job and publishes what that made.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from compclip import backbone, checkpoint, encode, environment, jobs, modules, optimiser, progress, publish, watch
from compclip.backbone import Model
from compclip.collate import collate
from compclip.errors import UserError, entry
from compclip.sections import Run
from compclip.views import Maker, Rows

# The system's and a person's way to say stop, and those of clusters before a time limit or a preemption.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


@dataclass
class State:
    """What changes while a run is in flight."""

    step: int = 0
    dropped: dict[str, int] | None = None


def train(run: Run, model: Model, rows: Rows, work: Path) -> dict[str, int]:
    """Train `model` in place, resuming from `work` if there is something; gives the counts of replaced pictures.

    Raises UserError when the loss is no longer finite, naming the step.
    """
    method, cfg = modules.find("compclip.methods", run.method_name), run.train
    steps = total_steps(cfg, rows.per_epoch)
    device = next(model.clip.parameters()).device
    frozen = optimiser.freeze(model.clip, cfg)
    adamw = optimiser.adamw(model.clip, cfg)
    header = checkpoint.read(work, model.clip, adamw) or {"step": 0, "dropped": {}}
    log = progress.Log(work / "metrics.jsonl", header["step"], steps, cfg.batch_size, rows.per_epoch)
    dropped = dict(header["dropped"])
    model.clip.train()
    with _stop_flag() as stop:
        for step in range(header["step"], steps):
            views = method.views(run.method, step)
            batch = _batch(rows, step, views, model, dropped).to(device)
            lr = optimiser.learning_rate(step, steps, cfg)
            with _autocast(device, cfg.precision):
                features = encode.features(model.clip, batch, views, frozen)
                terms = method.loss(features, run.method, step)
            norm = _update(model, adamw, sum(terms.values()), lr, cfg, step)
            if (step + 1) % cfg.log_every_steps == 0 or step + 1 == steps:
                log.write(step + 1, terms, lr, model.clip.logit_scale.exp().item(), norm)
            if (step + 1) % cfg.checkpoint_every_steps == 0 or stop.is_set or step + 1 == steps:
                checkpoint.write(work, step + 1, model.clip, adamw, {"dropped": dropped})
            if stop.is_set and step + 1 < steps:
                raise SystemExit(f"stopped by a signal after step {step + 1} of {steps}; the same command goes on")
    log.close()
    return dropped


def total_steps(cfg, per_epoch: int) -> int:
    """Optimiser steps of a run: whole batches of `epochs`, or `max_steps` where it is given."""
    return cfg.max_steps or max(1, round(cfg.epochs * per_epoch))


def _batch(rows: Rows, step: int, views, model: Model, dropped: dict[str, int]):
    made, lost = rows.batch(step, views)
    for reason, count in lost.items():
        dropped[reason] = dropped.get(reason, 0) + count
    return collate(made, views, model, lost)


def _autocast(device: torch.device, precision: str):
    enabled = precision == "bf16"
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


def _update(model: Model, adamw: torch.optim.AdamW, loss: Tensor, lr: float, cfg, step: int) -> float:
    """One optimiser step; gives the gradient norm before clipping."""
    if not torch.isfinite(loss):
        raise UserError(f"train: the loss is {loss.item()} at step {step + 1}; lower train.lr={cfg.lr}")
    for group in adamw.param_groups:
        group["lr"] = lr
    adamw.zero_grad(set_to_none=True)
    loss.backward()
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
    """Publish a cell's files: made by its job where one was sent, else here, unless its run key is finished."""
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
        raise UserError(f"{name}: {job.label()} failed: {job.reason()}; launch it again to go on from its last "
                        "checkpoint, or `python -m compclip.launch PROFILE cancel` and it is trained here")


def plain_rows(maker: Maker, run: Run, _model: Model) -> Rows:
    """The batches of a run."""
    return Rows(maker, run.train.batch_size)


def complete(publisher: publish.Publisher, rows: Callable[[Maker, Run, Model], Rows] = plain_rows) -> None:
    """Train and write the finished files, unless the run key is finished. The caller holds its lock."""
    if not publisher.finished():
        _train_and_finish(publisher.run, publisher, rows)


def _train_and_finish(run: Run, publisher: publish.Publisher, rows: Callable[[Maker, Run, Model], Rows]) -> None:
    started = time.time()
    torch.set_num_threads(run.train.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    method = modules.find("compclip.methods", run.method_name)
    model = backbone.load(publisher.backbone_folder, device=device)
    dropped: dict[str, int] = {}
    if getattr(method, "TRAINS", True):
        if needs := getattr(method, "needs_bias", None):
            model.add_bias(run.method.init_bias) if needs(run.method) else None
        maker = Maker(publisher.train_set(), run.cell.seed, model.image_size)
        dropped = train(run, model, rows(maker, run, model), publisher.work)
    facts = environment.facts(device) | {"dropped": dropped, "seconds": round(time.time() - started, 3)}
    publisher.finish(model, facts)


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
    print(json.dumps({"cell": args.cell, "run_key": publisher.key}))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

"""A tiny run that is stopped and resumed from its checkpoint, beside the same run through: are the weights equal?"""

from __future__ import annotations

import contextlib
import functools
import io
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from compclip.config.cell import Cell
from compclip.config.grid import Run
from compclip.config.sections import Backbone, Data, Train
from compclip.doctor import drawn_samples
from compclip.doctor.check_rows import FAILED, CheckRow, TimeBudget, catch_errors, judge
from compclip.interface.method import load_method
from compclip.model.clip_model import ClipModel
from compclip.train import extras, fine_tuning, recorder
from compclip.train.loader import EpochSampler

BATCH, STEPS, STOP = 8, 6, 3
TOLERANCE = 1e-2  # of the way that the weights went, where kernels may differ from run to run


class Stopped(Exception):
    """The run is stopped on purpose."""


def check_resumed(
    methods: tuple[str, ...], device: str, model_cfg: Mapping[str, Any], budget: TimeBudget, share: float
) -> Iterator[CheckRow]:
    """Yield two rows a method: with torch's usual kernels, and with `train.deterministic`, when bits must be equal."""
    for method_name in methods:
        for deterministic in (False, True):
            name = f"resumed {method_name}{' deterministic' if deterministic else ''}"
            if budget.seconds_left(share) <= 0:
                yield budget.skip_row(name)
                continue
            run = build_run(method_name, deterministic)
            yield from catch_errors(name, functools.partial(_compare_resumed, name, run, device, model_cfg))


def build_run(method_name: str, deterministic: bool = False) -> Run:
    """Return a run of a few steps, which saves at STOP."""
    train = Train(
        batch_size=BATCH, max_steps=STEPS, lr=1e-3, deterministic=deterministic, log_every_steps=STEPS,
        checkpoint_every_steps=STOP, checkpoint_every_min=0, threads=torch.get_num_threads(),
    )  # fmt: skip
    return Run(Cell(method_name, "drawn", "drawn", 0), load_method(method_name).Config(), train, Backbone(), Data())


def _compare_resumed(name: str, run: Run, device: str, model_cfg: Mapping[str, Any]) -> Iterator[CheckRow]:
    with tempfile.TemporaryDirectory(prefix="doctor-") as folder:
        through, _ = train_drawn(run, device, model_cfg, Path(folder) / "through")
        with contextlib.suppress(Stopped):
            train_drawn(run, device, model_cfg, Path(folder) / "stopped", stop=STOP)
        resumed, first_step = train_drawn(run, device, model_cfg, Path(folder) / "stopped")
    if first_step != STOP:
        reason = "its checkpoint could not be read back, so that it began anew; report it with this file"
        yield CheckRow(name, f"began at step {first_step}", f"step {STOP}", FAILED, reason)
        return
    start = drawn_samples.build_model(model_cfg).clip.state_dict()
    yield judge_difference(name, through, resumed, start, device == "cpu" or run.train.deterministic)


def train_drawn(
    run: Run, device: str, model_cfg: Mapping[str, Any], work: Path, stop: int | None = None
) -> tuple[dict[str, Tensor], int]:
    """Train on drawn samples in the folder `work`, from its newest checkpoint.

    Return the weights, on the CPU, and the step that was the first. Raises Stopped before step `stop`.
    """
    model = drawn_samples.build_model(model_cfg)
    model.clip.to(device)
    method, sampler = load_method(run.method_name), drawn_samples.DrawnSampler(BATCH, model.image_size)
    extras.prepare_model(method, run.method, model, run.cell.seed)

    steps: list[int] = []

    def stop_run(done: int, _steps: int, _model: ClipModel) -> None:
        steps.append(done)
        if done == stop:
            raise Stopped

    work.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))  # its progress
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(fine_tuning.set_arithmetic(run.train))
        record = stack.enter_context(recorder.recording(run, work, stop_run))
        fine_tuning.train(run, method, model, cast(EpochSampler, sampler), record)
    return {name: value.cpu() for name, value in model.clip.state_dict().items()}, steps[0]


def judge_difference(
    name: str, through: Mapping[str, Tensor], resumed: Mapping[str, Tensor], start: Mapping[str, Tensor], exact: bool
) -> CheckRow:
    """Return the row of two runs' weights: how far they are apart, over how far they went from the start.

    `exact`: the bits must be equal.
    """
    if all(torch.equal(weights, resumed[name]) for name, weights in through.items()):
        return CheckRow(name, "equal bits", "equal bits" if exact else f"{TOLERANCE:.0e}")
    distance = _measure_distance(through, resumed) / _measure_distance(through, start)
    if exact:
        return judge(name, f"{distance:.1e} apart", "equal bits", False, "report it with this file")
    reason = "a resumed run went another way; report it with this file"
    good = distance <= TOLERANCE
    value = f"{distance:.1e} apart{', expected without train.deterministic' if good else ''}"
    return judge(name, value, f"{TOLERANCE:.0e}", good, reason)


def _measure_distance(weights: Mapping[str, Tensor], other_weights: Mapping[str, Tensor]) -> float:
    """Return the root of all squared differences, in the parameters that both have."""
    names = [name for name in weights if name in other_weights and weights[name].is_floating_point()]
    return sum((weights[n].double() - other_weights[n].double()).square().sum().item() for n in names) ** 0.5

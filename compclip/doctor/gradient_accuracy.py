"""Loss terms and gradients of each method's step on a device, beside the same step in float64 on the CPU."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from compclip.config.sections import Train
from compclip.doctor import drawn_samples
from compclip.doctor.check_rows import STEP_TOLERANCES, CheckRow, TimeBudget, catch_errors, judge_errors
from compclip.interface.method import Method, load_method
from compclip.interface.views import Step
from compclip.model.clip_model import ClipModel
from compclip.train import accumulate, extras, fine_tuning, loader
from compclip.train.batch import Batch
from compclip.train.fitting_batch import count_turns

BATCH, SEED = 8, 0
PER_EPOCH = 1000
TEACHER_NOISE = 0.02  # added to a teacher's weights, which else equals the model and has nothing to say
REASON = "differs from float64 on the CPU; try another build of torch or driver, and report it"


@dataclass(frozen=True)
class StepResult:
    """The terms of a loss and the gradients of all parameters by name, in float64 on the CPU."""

    terms: Mapping[str, Tensor]
    gradients: Mapping[str, Tensor]


def check_gradients(
    methods: tuple[str, ...], device: str, model_cfg: Mapping[str, Any], budget: TimeBudget, share: float
) -> Iterator[CheckRow]:
    """Yield a row for each method and precision."""
    model = drawn_samples.build_model(model_cfg, SEED)
    with fine_tuning.set_arithmetic(Train()):  # no TF32
        for name in methods:
            if budget.seconds_left(share) <= 0:
                yield budget.skip_row(f"gradients {name}")
                continue
            yield from catch_errors(f"gradients {name}", functools.partial(compare_method, name, model, device))


def compare_method(name: str, model: ClipModel, device: str) -> Iterator[CheckRow]:
    """Yield the rows of one method: in each precision the largest errors of all steps that it takes in turn."""
    method = load_method(name)
    cfg = method.Config()
    steps = [Step(number, PER_EPOCH) for number in range(count_turns(method, cfg))]
    exact = [compute_step(method, step, model, "cpu", "float64") for step in steps]
    for precision in STEP_TOLERANCES:
        results = [compute_step(method, step, model, device, precision) for step in steps]
        errors = [measure_errors(result, reference) for result, reference in zip(results, exact, strict=True)]
        yield judge_errors(
            f"gradients {name}", precision, [max(column) for column in zip(*errors, strict=True)], REASON
        )


def draw_batch(method: Method, step: Step, model: ClipModel, size: int) -> Batch:
    """Return a batch of drawn samples, as the loader makes it."""
    views = method.views(method.Config(), step)
    rows = drawn_samples.draw_views(views, size, model.image_size, SEED + step)
    return loader.collate(rows, views, model)


def compute_step(
    method: Method, step: Step, model: ClipModel, device: str, precision: str, batch: Batch | None = None
) -> StepResult:
    """Return what the loss of a batch gives, a drawn one by default; the model is copied.

    `precision`: float64, float32, or bf16 (autocast over float32).
    """
    cfg, dtype = method.Config(), torch.float64 if precision == "float64" else torch.float32
    copied = replace(model, clip=copy.deepcopy(model.clip), model_cfg=copy.deepcopy(model.model_cfg))
    extras.prepare_model(method, cfg, copied, SEED)
    copied.clip.to(device=device, dtype=dtype)
    extra_parts = _create_extras(method, copied, dtype)
    autocast: Callable[[], AbstractContextManager] = contextlib.nullcontext
    if precision == "bf16":
        autocast = functools.partial(torch.autocast, torch.device(device).type, torch.bfloat16)
    computer = accumulate.GradientComputer(copied.clip, frozenset(), autocast, 0, extra_parts)
    batch = batch or draw_batch(method, step, model, BATCH)
    loss = functools.partial(method.loss, cfg=cfg, step=step)
    terms = computer.compute_gradients(batch, method.views(cfg, step), loss)
    parameters = [*copied.clip.named_parameters(), *extra_parts.parameters()]
    gradients = {name: p.grad.cpu().double() for name, p in parameters if p.grad is not None}
    return StepResult({name: term.cpu().double() for name, term in terms.items()}, gradients)


def _create_extras(method: Method, model: ClipModel, dtype: torch.dtype) -> extras.Extras:
    """Return what a method keeps beside the model; its teacher is another model, so that it has something to say."""
    extra_parts = extras.create_extras(method, method.Config(), model, SEED)
    if extra_parts.heads:
        extra_parts.heads.to(dtype)
    if extra_parts.teacher:
        generator = torch.Generator().manual_seed(SEED)
        for parameter in extra_parts.teacher.parameters():
            parameter.add_(TEACHER_NOISE * torch.randn(parameter.shape, generator=generator).to(parameter))
    return extra_parts


def measure_errors(result: StepResult, reference: StepResult) -> tuple[float, float]:
    """Return the largest error of a term over the size of all terms, and the gradient's error over its norm.

    A parameter that only one of both has a gradient for has zeros in the other.
    """
    size = sum(abs(term.item()) for term in reference.terms.values())
    of_terms = max(abs(result.terms[name] - term).item() for name, term in reference.terms.items()) / size
    names = reference.gradients.keys() | result.gradients.keys()
    zero = torch.zeros((), dtype=torch.float64)
    squares = [
        (result.gradients.get(name, zero) - reference.gradients.get(name, zero)).square().sum() for name in names
    ]
    norm = torch.stack([gradient.square().sum() for gradient in reference.gradients.values()]).sum().sqrt()
    return of_terms, (torch.stack(squares).sum().sqrt() / norm).item()

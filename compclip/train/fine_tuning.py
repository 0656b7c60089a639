"""Fine-tune one run's model, from its backbone and data to the finished weights: read top to bottom, plain torch.

This module and what it imports, with the method's, decide a run's numbers, and `config.training_code` hashes them. It
neither reports nor writes files: logging, checkpoints and signals are an `Observer`'s (`recorder`), finished files a
`job`'s.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from compclip.base.files import read_json
from compclip.data.prepared_dataset import PreparedDataset, map_neighbours
from compclip.interface.method import Method, check_columns, list_columns, load_method
from compclip.interface.views import Phase, Step, Views
from compclip.model import clip_model, lora, towers
from compclip.model.clip_model import ClipModel
from compclip.runs.run_folder import Inputs
from compclip.train import accumulate, distributed, extras, loader, optimiser
from compclip.train.batch import Batch, View
from compclip.train.distributed import Process
from compclip.train.extras import Extras
from compclip.train.loader import EpochSampler
from compclip.train.picture_views import Fit, Resize, open_torch_fit, resize_by_pillow, resize_by_torch
from compclip.train.view_maker import ContextReader, RandomResizedCrop, ViewMaker

if TYPE_CHECKING:
    from compclip.config.grid import Run
    from compclip.config.sections import Train
    from compclip.interface.features import Features

Terms = dict[str, Tensor]
SINGLE_PROCESS = Process()
FLOAT16 = "fp16"  # of `train.precision`: autocast to float16, the loss scaled
AUTOCAST_TYPES = {"bf16": torch.bfloat16, FLOAT16: torch.float16}


class InfiniteLoss(Exception):
    """The loss of a step is no finite number. Arguments: the step, counted from 0, and the terms."""


@dataclass(frozen=True)
class TrainingState:
    """What changes while a run trains."""

    model: ClipModel
    frozen: frozenset[str]  # towers
    adamw: torch.optim.Adam
    extras: Extras


@dataclass(frozen=True)
class StepNumbers:
    """What was read from the device after a step: its terms, the gradient's norm before clipping, exp(logit_scale).

    In float16 the factor of the loss and the skipped steps as well; the norm of a skipped step is infinite.
    """

    terms: dict[str, float]
    norm: float
    scale: float
    loss_scale: dict[str, float] = field(default_factory=dict)


class Observer:
    """Look on while a run trains. This one does nothing; none may change the model or torch's generators."""

    def start(self, state: TrainingState, steps: int, per_epoch: int) -> int:
        """Restore the newest checkpoint, if any; return how many of `steps` steps it has done."""
        return 0

    def compute_loss(self, method: Method, cfg: Any, step: Step, f: Features) -> Terms:
        """Return the terms of the method's loss; an observer may say more of an error in it."""
        return method.loss(f, cfg, step)

    def count_workers(self, cfg: Train, device: str, batch_bytes: int) -> int:
        """Return how many processes make batches ahead, whose pictures have so many bytes; no number depends on it."""
        return cfg.workers or 0

    def count_parts(self, rows: Sequence[View], views: Views, samples: int) -> dict[str, dict[str, int]]:
        """Return counts to travel with a batch, whose first `samples` rows are its own (in a worker's process)."""
        return {}

    def reads_step(self, step: int) -> bool:
        """Return whether the run reads numbers from the device after step `step`; every process calls this."""
        return True

    def before_batch(self, step: int) -> None:
        """Look at the model before step `step`, whose batch is read next."""

    def before_step(self, batch: Batch) -> None:
        """Look at the batch that was read."""

    def after_step(self, step: int, batch: Batch, views: Views, numbers: StepNumbers | None, lr: float) -> None:
        """Record step `step`, with numbers where `reads_step` asked for them; end the run by an exception."""


def fine_tune(run: Run, root: Path, observer: Observer) -> ClipModel:
    """Return the trained model, before `finish_weights`; `observer` restores and saves checkpoints.

    A method that trains nothing gives its model, which it checks itself to fit, or the backbone as it is.
    """
    torch.set_num_threads(run.train.threads)
    inputs = Inputs(root, run.cell)
    method = load_method(run.method_name)
    device = distributed.process_device()
    start_cfg = read_json(inputs.backbone / clip_model.CONFIG)["model_cfg"]
    model = method.model(run, inputs.root, start_cfg, device) or load_backbone(inputs.backbone, run.train, device)
    if method.TRAINS:
        rows = build_sampler(run, method, model, inputs, distributed.current_process())
        with set_arithmetic(run.train):
            return train(run, method, model, rows, observer)
    return model


@contextlib.contextmanager
def set_arithmetic(cfg: Train) -> Iterator[None]:
    """Set how float32 products are rounded and whether kernels are deterministic, for the block.

    cuBLAS gives the same bits each time only with a workspace of fixed size, which it reads when it is first used.
    """
    previous = describe_arithmetic()
    if cfg.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    _apply_arithmetic(cfg.matmul, cfg.matmul == "high", cfg.deterministic)
    try:
        yield
    finally:
        _apply_arithmetic(*previous.values())


def _apply_arithmetic(matmul: str, convolutions_in_tf32: bool, deterministic: bool) -> None:
    torch.set_float32_matmul_precision(matmul)
    torch.backends.cudnn.allow_tf32 = convolutions_in_tf32
    torch.use_deterministic_algorithms(deterministic)


def describe_arithmetic() -> dict[str, Any]:
    """Return the rounding of float32 products, whether convolutions use TF32, and whether kernels are deterministic."""
    return {
        "matmul": torch.get_float32_matmul_precision(),
        "convolutions_in_tf32": torch.backends.cudnn.allow_tf32,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def autocast_to(precision: str, device: str) -> torch.autocast:
    """Return what computes the products of a block in the type of `train.precision`; nothing where it has none."""
    return torch.autocast(device, AUTOCAST_TYPES.get(precision, torch.bfloat16), enabled=precision in AUTOCAST_TYPES)


def load_backbone(folder: Path, cfg: Train, device: str = "cpu") -> ClipModel:
    """Return the backbone as training starts from it."""
    model = clip_model.load_folder(folder, device)
    return clip_model.cut_context(model, cfg.context_length) if cfg.context_length else model


def build_sampler(
    run: Run, method: Method, model: ClipModel, inputs: Inputs, process: Process = SINGLE_PROCESS
) -> EpochSampler:
    """Return the samples that a process trains on; the model gets what its method needs of it."""
    extras.prepare_model(method, run.method, model, run.cell.seed)
    data = PreparedDataset(inputs.data)
    cfg = run.train
    views = method.views(run.method, 0)
    neighbours: Sequence[Sequence[int]] | np.ndarray = ()
    if views.neighbours:
        neighbours = map_neighbours(inputs.neighbours)[:, : views.nearest]
    resize: Resize = resize_by_pillow
    fit: Fit | None = None
    if cfg.resize == "torch":
        resize = resize_by_torch
        fit = open_torch_fit(model.preprocess_cfg)
    low, high = cfg.augment_scale
    crop = RandomResizedCrop(low, high, resize) if cfg.augment == "random_resized_crop" else None
    mode = model.preprocess_cfg["resize_mode"]
    maker = ViewMaker(data, run.cell.seed, model.image_size, crop=crop, nearest=neighbours, resize=resize, fit=fit,
                      fit_mode=mode, reader=ContextReader(model.tokenize, model.tokenizer.room))  # fmt: skip
    return EpochSampler(maker, cfg.batch_size, process.rank, process.world, cfg.shuffle)


def train(run: Run, method: Method, model: ClipModel, sampler: EpochSampler, observer: Observer) -> ClipModel:
    """Train `model` in place; every process of the run calls this with its own sampler.

    Return it, with the heads that its method keeps.

    Raises InfiniteLoss where the loss is no longer finite, before the weights are changed by it. Another device than
    the CPU is read once in each step that `observer` asks for numbers of, and in no other.
    """
    cfg = run.train
    seed = run.cell.seed
    steps = total_steps(cfg, sampler.per_epoch)
    rank = distributed.current_process().rank
    state = start_state(run, method, model)
    model = state.model
    adamw = state.adamw
    extra_parts = state.extras
    if cfg.compile:
        for clip in filter(None, (model.clip, extra_parts.teacher)):
            towers.compile_blocks(clip)

    def phase_at(step: int) -> Phase:
        return method.phase(run.method, Step(step, sampler.per_epoch))

    keeper = optimiser.PhaseKeeper(model.clip, extra_parts, map(phase_at, range(steps)))
    first_step = observer.start(state, steps, sampler.per_epoch)
    device = next(model.clip.parameters()).device
    columns = list_columns(method, run.method)

    def views_at(step: int) -> Views:
        return check_columns(method.views(run.method, Step(step, sampler.per_epoch)), columns, step)

    gradient_computer = build_computer(state, cfg)
    losses = LossCheck(adamw)
    workers = observer.count_workers(cfg, device.type, loader.picture_bytes(sampler, views_at(0), model))
    optimiser.set_modes(model.clip)
    optimiser.check_batch_norms(model.clip, cfg, distributed.current_process().world)
    steps_left = range(first_step, steps)
    with loader.open_batches(sampler, views_at, model, steps_left, workers, observer.count_parts) as batches:
        for step in steps_left:
            observer.before_batch(step)
            batch = next(batches)
            views = views_at(step)
            phase = phase_at(step)
            observer.before_step(batch)
            lr = optimiser.learning_rate(step, steps, cfg) * phase.rate
            adamw.zero_grad(set_to_none=True)
            if phase.restarted:
                seed_dropout(seed, step, 0)  # the same on every process
                keeper.restart(phase)
            seed_dropout(seed, step, rank)
            loss = functools.partial(observer.compute_loss, method, run.method, Step(step, sampler.per_epoch))
            terms = gradient_computer.compute_gradients(batch, views, loss)
            losses.add(step, terms)
            reads = observer.reads_step(step)
            if device.type == "cpu":
                losses.check()
            keeper.hold_still(phase)
            norm = update(model, adamw, lr, cfg, extra_parts)
            numbers = losses.read_numbers(terms, norm, model.clip.logit_scale.exp(), extra_parts) if reads else None
            observer.after_step(step, batch, views, numbers, lr)
    leave_training(model, cfg)
    return model


def start_state(run: Run, method: Method, model: ClipModel) -> TrainingState:
    """Return a run's state before its first step; `model` is changed in place to what is trained."""
    cfg = run.train
    seed = run.cell.seed
    if cfg.precision in towers.WEIGHT_TYPES:
        towers.cast_weights(model.clip, cfg.precision)
    frozen = optimiser.freeze(model.clip, cfg, seed)
    extra_parts = extras.create_extras(method, run.method, model, seed, cfg.precision == FLOAT16)
    if method.keeps_heads(run.method):
        model = replace(model, head=extra_parts.heads)
    if cfg.checkpoint_activations:
        towers.checkpoint_activations(model.clip)
    return TrainingState(model, frozen, optimiser.adamw(model.clip, cfg, extra_parts.parameters()), extra_parts)


def build_computer(state: TrainingState, cfg: Train) -> accumulate.GradientComputer:
    """Return what computes the gradients of each step."""
    clip = state.model.clip
    autocast = functools.partial(autocast_to, cfg.precision, clip.logit_scale.device.type)
    return accumulate.GradientComputer(clip, state.frozen, autocast, cfg.micro_batch, state.extras, cfg.text_groups)


def leave_training(model: ClipModel, cfg: Train) -> None:
    """Undo what training sets on a model: weights of fewer bits, activations computed again, compiled blocks."""
    model.clip.float()
    if cfg.checkpoint_activations:
        towers.checkpoint_activations(model.clip, False)
    if cfg.compile:
        towers.compile_blocks(model.clip, False)
    if model.head is not None:
        model.head.eval()


@dataclass
class LossCheck:
    """Notices a loss that is not finite, without a wait for the device at every step.

    The optimiser's step is skipped by the device itself then, so that the weights stay those before that step.
    """

    adamw: torch.optim.Adam
    unchecked: list[tuple[int, Terms, Tensor]] = field(default_factory=list)

    def add(self, step: int, terms: Terms) -> None:
        """Take in the terms of a step, before the optimiser makes it."""
        is_finite = torch.isfinite(accumulate.sum_terms(terms).detach())
        self.unchecked.append((step, terms, is_finite))
        if is_finite.device.type != "cpu":
            # torch's fused step looks at it
            self.adamw.found_inf = (~is_finite).float()  # type: ignore[attr-defined]

    def read_numbers(self, terms: Terms, norm: Tensor, scale: Tensor, extra_parts: Extras = extras.NONE) -> StepNumbers:
        """Check, and return the numbers of the last step, by one copy from their device."""
        loss_scale = extra_parts.loss_scale
        scaling = {"loss_scale": loss_scale.factor, "skipped_steps": loss_scale.skipped_steps} if loss_scale else {}
        norm_value, scale_value, *values = self.check(norm, scale, *terms.values(), *scaling.values())
        term_values = dict(zip(terms, values, strict=False))  # those of `scaling` are behind
        scaling_values = dict(zip(scaling, values[len(terms) :], strict=True))
        return StepNumbers(term_values, norm_value, scale_value, scaling_values)

    def check(self, *scalars: Tensor) -> list[float]:
        """Return the values of tensors of one number.

        Raises InfiniteLoss for the first step since the last check whose loss is not finite.
        """
        flags = [is_finite for *_, is_finite in self.unchecked]
        values = torch.stack([tensor.detach().double().reshape(()) for tensor in (*flags, *scalars)]).cpu().tolist()
        for (step, terms, _), is_finite in zip(self.unchecked, values, strict=False):
            if not is_finite:
                raise InfiniteLoss(step, terms)
        self.unchecked.clear()
        return values[len(flags) :]


def seed_dropout(seed: int, step: int, rank: int) -> None:
    """Seed torch's generators, which patch dropout draws from, so that a resumed run draws the same."""
    torch.manual_seed(int(np.random.default_rng((seed, step, rank)).integers(2**63)))


def total_steps(cfg: Train, per_epoch: int) -> int:
    """Return the optimiser steps of a run: whole batches of `epochs`, or `max_steps` where it is given."""
    return cfg.max_steps or max(1, round(cfg.epochs * per_epoch))


def update(model: ClipModel, adamw: torch.optim.Adam, lr: float, cfg: Train, extra_parts: Extras) -> Tensor:
    """Take one optimiser step along the gradients that are there; return their norm before clipping, a scalar."""
    for group in adamw.param_groups:
        group["lr"] = lr
    parameters = [*model.clip.parameters(), *dict(extra_parts.parameters()).values()]
    trained = [p for p in parameters if p.grad is not None]
    if extra_parts.loss_scale:
        extra_parts.loss_scale.divide_gradients(trained)
    norm = torch.nn.utils.clip_grad_norm_(trained, cfg.grad_clip_norm or float("inf"))
    if extra_parts.loss_scale:
        norm = extra_parts.loss_scale.skip_overflow(adamw, norm)
    adamw.step()
    optimiser.clamp_scale(model.clip, cfg.max_logit_scale)
    extra_parts.after_step(model.clip)
    return norm


def finish_weights(run: Run, root: Path, model: ClipModel, adapter: Path) -> None:
    """Merge a LoRA adapter, which is written to the folder `adapter`, and average with the backbone's weights.

    The average has (1 - alpha) of the backbone's and alpha of the trained ones. A head is averaged with the weights by
    which it does nothing, if there are such, and stays as it is otherwise.
    """
    lora.save_and_merge(model.clip, adapter)
    alpha = run.train.average_alpha
    if alpha < 1:
        backbone = load_backbone(Inputs(root, run.cell).backbone, run.train)
        load_method(run.method_name).adapt(run.method, backbone, run.cell.seed)
        start = backbone.clip.state_dict()
        trained = {name: value.cpu() for name, value in model.clip.state_dict().items()}
        model.clip.load_state_dict(clip_model.interpolate(start, trained, alpha))
        if model.head is not None:
            model.head.move_towards_start(alpha)

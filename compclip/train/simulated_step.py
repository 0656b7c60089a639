"""One training step of a cell with a batch that is made up, on a device or on a GPU that is not there.

Of the latter it gives memory, arithmetic, launches and waits.

B images, K negatives, P extra positives, J negative images, L text positions, M concepts, R regions, C texts of a
region, H height, W width.

The step is the project's own: the method's views and loss, towers, gradient caching, the optimiser. The batch alone
is made up: every text has all positions, every rule gave a text, a caption has CONCEPTS concepts. So memory is that of
the largest batch.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from compclip.interface.views import Step, Views
from compclip.model import clip_model
from compclip.model.clip_model import ClipModel
from compclip.model.tokenizers import TokenLayout
from compclip.train import extras, fake_device, fine_tuning, optimiser
from compclip.train.batch import (
    CAPTION,
    CONCEPT,
    NEGATIVE,
    NEGATIVE_IMAGES,
    POSITIVE,
    REGION_CROPS,
    REGION_TEXTS,
    REGIONS,
    Batch,
    Concepts,
    PictureBlock,
    TextBlock,
)

if TYPE_CHECKING:
    from compclip.config.grid import Run
    from compclip.interface.method import Method

CONCEPTS = 3  # of a caption; COCO's have 2.6
PER_EPOCH = 1000  # steps: a method may take turns by a step's number
FIRST_STEPS = 1  # behind it the optimiser's state is there; a second changes no number


@dataclass(frozen=True)
class StepCost:
    """What a step costs: bytes at the peak, floating point operations, kernels, and host waits."""

    samples: int
    peak_bytes: int
    flops: int
    launches: int
    waits: Mapping[str, int]  # by place in the code
    blocking_copies: Mapping[str, int]  # by place: copies to the device from memory that is not pinned


def simulate_step(run: Run, method: Method, model_cfg: Mapping[str, Any], turns: int = 1) -> StepCost:
    """Return the cost of one step, of `turns` steps that a method takes in turn the mean; the highest peak counts.

    `model_cfg`: the backbone's, in open_clip's format. Raises what the method's loss raises, and torch's error for
    tensors on different devices.
    """
    with fake_device.simulate() as ledger:
        take_step = open_step(run, method, model_cfg, fake_device.NAME)
        for number in range(FIRST_STEPS * turns + turns):
            if number == FIRST_STEPS * turns:
                ledger.reset_counts()
            take_step(number)
        return StepCost(
            samples=run.train.batch_size,
            peak_bytes=ledger.peak_bytes,
            flops=ledger.flops // turns,
            launches=ledger.launches // turns,
            waits=dict(ledger.waits),
            blocking_copies=dict(ledger.blocking_copies),
        )


def open_step(run: Run, method: Method, model_cfg: Mapping[str, Any], device: str) -> Callable[[int], None]:
    """Build what a run's steps need on a device; return what takes step `number`, as `fine_tuning.train` does.

    Steps with the same views have the same batch: in a run, workers make it.
    """
    cfg = run.train
    model = build_model(run, method, model_cfg, device)
    state = fine_tuning.start_state(run, method, model)
    losses = fine_tuning.LossCheck(state.adamw)
    computer = fine_tuning.build_computer(state, cfg)
    optimiser.set_modes(model.clip)
    optimiser.check_batch_norms(model.clip, cfg)
    batches: dict[Views, Batch] = {}  # the last one

    def take_step(number: int) -> None:
        step = Step(number, PER_EPOCH)
        views = method.views(run.method, step)
        if views not in batches:
            batches.clear()
            batch = build_batch(views, cfg.batch_size, model)
            batches[views] = batch if device == "cpu" else batch.pin_memory()
        state.adamw.zero_grad(set_to_none=True)
        loss = functools.partial(method.loss, cfg=run.method, step=step)
        losses.add(number, computer.compute_gradients(batches[views], views, loss))
        fine_tuning.update(model, state.adamw, cfg.lr, cfg, state.extras)
        losses.unchecked.clear()

    return take_step


def build_model(run: Run, method: Method, model_cfg: Mapping[str, Any], device: str) -> ClipModel:
    """Build the cell's model on a device, without a tokenizer and with weights that nobody knows."""
    cfg = copy.deepcopy(dict(model_cfg))
    with torch.device(device):
        clip = clip_model.build_module(cfg)
    clip.layout = TokenLayout()
    model = ClipModel(clip, None, None, cfg, {}, "")
    if run.train.context_length:
        model = clip_model.cut_context(model, run.train.context_length)
    extras.prepare_model(method, run.method, model, run.cell.seed)
    return model


def build_batch(views: Views, size: int, model: ClipModel) -> Batch:
    """Return a batch of `size` samples on the CPU, whose texts are of full length and all there."""
    B = size * (1 + views.neighbours)
    L = model.model_cfg["text_cfg"].get("context_length", 77)
    side = model.image_size
    K = views.negative_texts
    P = views.positive_texts
    J = views.negative_images
    M = CONCEPTS * B if views.concepts else 0
    R = views.regions.count if views.regions else 0
    pictures = {}
    if J:
        pictures[NEGATIVE_IMAGES] = _picture_block(B, J, side)
    if R:
        box_BR4 = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(B, R, 4).contiguous()
        pictures[REGIONS] = PictureBlock(torch.ones(B, R, dtype=torch.bool), box_BJ4=box_BR4)
        if views.regions and views.regions.crops:
            pictures[REGION_CROPS] = _picture_block(B, R, side)
    texts = {
        CAPTION: TextBlock(torch.zeros(B, L, dtype=torch.long)),
        NEGATIVE: _text_block(B, K, L),
        POSITIVE: _text_block(B, P, L),
        CONCEPT: TextBlock(torch.zeros(M if views.concepts == "encoded" else 0, L, dtype=torch.long)),
    }
    if views.regions:
        texts[REGION_TEXTS] = _text_block(B, R, views.regions.texts, L)
    for name, count in views.named_texts.items():
        texts[name] = _text_block(B, count, L)
    spans_M2 = torch.tensor([1, 3]).expand(M, 2).contiguous()
    counts = (CONCEPTS,) * B if M else (0,) * B
    return Batch(
        image_B3HW=torch.zeros(B, 3, side, side, dtype=torch.uint8),
        texts=texts,
        concepts=Concepts(spans_M2, torch.zeros(M, dtype=torch.long), counts),
        pictures=pictures,
        target_BL=torch.zeros(B, L, dtype=torch.long) if views.target else None,
        statistics_23=torch.ones(2, 3),
    )


def _text_block(*shape: int) -> TextBlock:
    return TextBlock(torch.zeros(*shape, dtype=torch.long), torch.ones(*shape[:-1], dtype=torch.bool))


def _picture_block(B: int, J: int, side: int) -> PictureBlock:
    return PictureBlock(torch.ones(B, J, dtype=torch.bool), torch.zeros(B, J, 3, side, side, dtype=torch.uint8))

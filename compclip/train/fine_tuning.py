"""Fine-tune one run's model, from its backbone and data to the finished weights.

This module and what it imports, with the method's, decide a run's numbers, and `config.training_code` hashes them. What
writes the run's files stands in `finish`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from compclip.base.files import read_json
from compclip.data import neighbour_file
from compclip.data.prepared_dataset import PreparedDataset
from compclip.interface.method import Method, load_method
from compclip.model import clip_model, lora
from compclip.runs.run_folder import Inputs
from compclip.train import distributed, loop
from compclip.train.crops import RandomResizedCrop
from compclip.train.distributed import Process
from compclip.train.loop import Observer
from compclip.train.view_maker import EpochSampler, ViewMaker

if TYPE_CHECKING:
    import numpy as np

    from compclip.config.grid import Run
    from compclip.config.sections import Train
    from compclip.model.clip_model import ClipModel

SINGLE_PROCESS = Process()


def fine_tune(run: Run, root: Path, observer: Observer) -> ClipModel:
    """Return the trained model, before `finish_weights`; `observer` restores and saves checkpoints.

    A method that trains nothing gives its model, which it checks itself to fit, or the backbone as it is.
    """
    torch.set_num_threads(run.train.threads)
    inputs, method = Inputs(root, run.cell), load_method(run.method_name)
    device, start_cfg = distributed.process_device(), read_json(inputs.backbone / clip_model.CONFIG)["model_cfg"]
    model = method.model(run, inputs.root, start_cfg, device) or _load_backbone(inputs.backbone, run.train, device)
    if method.TRAINS:
        rows = build_sampler(run, method, model, inputs, distributed.current_process())
        loop.train(run, method, model, rows, observer)
    return model


def _load_backbone(folder: Path, cfg: Train, device: str = "cpu") -> ClipModel:
    """Return the backbone as training starts from it."""
    model = clip_model.load_folder(folder, device)
    return clip_model.cut_context(model, cfg.context_length) if cfg.context_length else model


def build_sampler(
    run: Run, method: Method, model: ClipModel, inputs: Inputs, process: Process = SINGLE_PROCESS
) -> EpochSampler:
    """Return the samples that a process trains on; a softmax model gets the bias that its method's losses need."""
    if method.needs_bias(run.method):
        model.add_bias(run.method.init_bias)
    data, cfg, views = PreparedDataset(inputs.data), run.train, method.views(run.method, 0)
    neighbours: Sequence[Sequence[int]] | np.ndarray = ()
    if views.neighbours:
        neighbours = neighbour_file.map_neighbours(inputs.neighbours, len(data))[:, : views.nearest]
    crop = RandomResizedCrop(*cfg.augment_scale) if cfg.augment == "random_resized_crop" else None
    maker = ViewMaker(data, run.cell.seed, model.image_size, crop=crop, nearest=neighbours)
    return EpochSampler(maker, cfg.batch_size, process.rank, process.world, cfg.shuffle)


def finish_weights(run: Run, root: Path, model: ClipModel, adapter: Path) -> None:
    """Merge a LoRA adapter, which is written to the folder `adapter`, and average with the backbone's weights.

    The average has (1 - alpha) of the backbone's and alpha of the trained ones.
    """
    lora.save_and_merge(model.clip, adapter)
    alpha = run.train.average_alpha
    if alpha < 1:
        start = _load_backbone(Inputs(root, run.cell).backbone, run.train).clip.state_dict()
        trained = {name: value.cpu() for name, value in model.clip.state_dict().items()}
        model.clip.load_state_dict(clip_model.interpolate(start, trained, alpha))

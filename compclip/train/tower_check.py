"""Whether a backbone's towers can do what a cell asks of them, by shapes alone: nothing is read and nothing computed.

What refuses is the training's own code, called on torch's meta device before any stage runs.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from compclip.interface.method import LOOKED_AT
from compclip.interface.views import Step
from compclip.model import backbone, towers
from compclip.train import extras, optimiser, simulated_step

if TYPE_CHECKING:
    from compclip.config.grid import Run
    from compclip.interface.method import Method
    from compclip.model.clip_model import ClipModel

DEVICE = "meta"


def check_cell(run: Run, method: Method, model_cfg: Mapping[str, Any], processes: int = 1) -> None:
    """Raise UserError where the towers of a config refuse a method or an option of `train`, as its run would.

    `processes`: how many train it together.
    """
    cfg = run.train
    backbone.check_kind(dict(model_cfg), f"model {run.backbone.model}", captioner=False)
    with torch.random.fork_rng([]), torch.no_grad():
        model = simulated_step.build_model(run, method, _shorten(model_cfg), DEVICE)
        _check_patches(run, method, model)
        optimiser.freeze(model.clip, cfg)
        if not method.helpers(run.method):  # which may not be there yet
            with torch.device(DEVICE):
                extras.create_extras(method, run.method, model, run.cell.seed)
        if cfg.checkpoint_activations:
            towers.checkpoint_activations(model.clip)
        if cfg.compile:
            towers.compile_blocks(model.clip)
        optimiser.set_modes(model.clip)
        optimiser.check_batch_norms(model.clip, cfg, processes)


def _shorten(model_cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with one layer in each of open_clip's own towers: no refusal depends on their number."""
    cfg = copy.deepcopy(dict(model_cfg))
    for section in ("vision_cfg", "text_cfg"):
        if isinstance(cfg[section].get("layers"), int):  # a ResNet has a list
            cfg[section]["layers"] = 1
    return cfg


def _check_patches(run: Run, method: Method, model: ClipModel) -> None:
    """Encode a picture where a step looks at patches or pools regions."""
    steps = [method.views(run.method, Step(number, simulated_step.PER_EPOCH)) for number in LOOKED_AT]
    image_B3HW = torch.zeros(1, 3, model.image_size, model.image_size, device=DEVICE)
    model.clip.eval()
    with contextlib.suppress(NotImplementedError):  # of a tower that looks at values
        if any(views.regions for views in steps):
            towers.encode_with_local_patches(model.clip, image_B3HW, tokens=True)
        elif any(views.tokens for views in steps):
            towers.encode_images(model.clip, image_B3HW, tokens=True)

"""The model of a run as it is saved: plain weights, an adapter merged, averaged with the backbone.

The folder is in open_clip's format; a file that equals the backbone's is stored once.
"""

from __future__ import annotations

import filecmp
from pathlib import Path
from typing import TYPE_CHECKING

from compclip.base import links
from compclip.interface.method import load_method
from compclip.model import lora, towers
from compclip.runs.run_folder import Inputs
from compclip.train import fine_tuning

if TYPE_CHECKING:
    from compclip.config.grid import Run
    from compclip.config.sections import Train
    from compclip.model.clip_model import ClipModel


def leave_training(model: ClipModel, cfg: Train) -> None:
    """Undo what training sets on a model: weights of fewer bits, activations computed again, compiled blocks."""
    model.clip.float()
    if model.head is not None:
        model.head.eval()
    if cfg.checkpoint_activations:
        towers.checkpoint_activations(model.clip, False)
    if cfg.compile:
        towers.compile_blocks(model.clip, False)


def save_model(run: Run, root: Path, model: ClipModel, checkpoint: Path) -> None:
    """Write the model of a run: with the adapter merged and the weights averaged, where it asks for that."""
    is_trained = model.head is not None or any(p.requires_grad for p in model.clip.parameters())
    if load_method(run.method_name).TRAINS and is_trained:
        fine_tuning.finish_weights(run, root, model, checkpoint / lora.FOLDER)
    model.save(checkpoint)


def link_equal_files(checkpoint: Path, inputs: Inputs) -> None:
    """Link the files of a checkpoint that equal the backbone's to those."""
    for file in checkpoint.iterdir():
        backbone_file = inputs.backbone / file.name
        if backbone_file.is_file() and filecmp.cmp(backbone_file, file, shallow=False):
            links.link_or_copy(backbone_file, file)

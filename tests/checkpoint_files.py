"""Checkpoints as training writes them, from a model and its optimiser."""

from pathlib import Path

import torch
from torch import nn

from compclip.train import checkpoint, extras
from compclip.train.extras import Extras


def write(
    folder: Path,
    step: int,
    clip: nn.Module,
    optimiser: torch.optim.Optimizer,
    header: dict,
    extra_parts: Extras = extras.NONE,
) -> Path:
    """Write a checkpoint after `step` steps; return its path."""
    return checkpoint.write_tensors(folder, step, checkpoint.collect_tensors(clip, optimiser, extra_parts), header)

"""What a run's first steps gave, recorded so that other code can be compared with it: first_steps.json.

On a CPU, where equal code gives equal bits, the weights' SHA-256 is recorded as well (all that is trained, and all
buffers), and that of AdamW's moments.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compclip.base.files import read_json, write_atomic
from compclip.train import checkpoint
from compclip.train.fine_tuning import StepNumbers, TrainingState

COUNT = 3  # steps that are recorded, and that a checkpoint is kept before the end
HASHES = ("weights", "moments")  # of a row
WEIGHTS = ("model.", "beside.")  # how their names in a checkpoint begin; the others are moments


class FirstSteps:
    """The file of a run's first steps; after a resume, rows behind the checkpoint are left out."""

    def __init__(self, path: Path, steps_done: int) -> None:
        self.path = path
        self.rows = [row for row in read_rows(path) if row["step"] <= steps_done]

    def add(self, row: dict[str, Any]) -> None:
        """Write the file with one more row. Raises UserError where it cannot be written."""
        self.rows.append(row)
        write_atomic(self.path, json.dumps(self.rows, indent=1) + "\n")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of the file; none where there is no file. Raises UserError for a damaged one."""
    return read_json(path) if path.is_file() else []


def describe_step(step: int, numbers: StepNumbers, lr: float, state: TrainingState) -> dict[str, Any]:
    """Return the row of a step, counted from 1: its numbers; of the first steps also hashes of the state after it.

    A GPU's state is not hashed: its bits may differ from run to run, and the copies would take time. The
    moments are hashed after the last of the first steps alone: they are two thirds of the bytes.
    """
    row = {"step": step, "lr": lr, "terms": numbers.terms, "grad_norm": numbers.norm, "logit_scale": numbers.scale}
    if step > COUNT or state.model.clip.logit_scale.device.type != "cpu":
        return row
    tensors = checkpoint.collect_tensors(state.model.clip, state.adamw, state.extras)
    weights = {name: value for name, value in tensors.items() if name.startswith(WEIGHTS)}
    row["weights"] = hash_tensors(weights)
    if step == COUNT:
        row["moments"] = hash_tensors({name: value for name, value in tensors.items() if name not in weights})
    return row


def hash_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 (hex) over names, types, shapes and bytes, sorted by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        value = tensor.detach().cpu().contiguous()
        digest.update(f"{name}\0{value.dtype}\0{tuple(value.shape)}\n".encode())
        digest.update(value.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()

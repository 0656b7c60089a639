"""Resumable state: one file a checkpoint, tensors and a JSON header, written whole or not at all.

A file is a safetensors file: `model.*` the trained weights and all buffers, `exp_avg.*` and `exp_avg_sq.*` AdamW's
moments by parameter name. Frozen weights, as those below a LoRA adapter, are not written.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from compclip.base.files import write_atomic

KEEP = 2
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def write(folder: Path, step: int, clip: nn.Module, optimiser: torch.optim.Optimizer, header: dict) -> Path:
    """Save after `step` optimiser steps and drop all but the last two. Raises UserError where it cannot be written."""
    frozen = _frozen(clip)
    tensors = {f"model.{k}": v.contiguous() for k, v in clip.state_dict().items() if k not in frozen}
    for name, parameter in clip.named_parameters():
        state = optimiser.state.get(parameter, {})
        tensors |= {f"{moment}.{name}": state[moment].contiguous() for moment in _MOMENTS if moment in state}
    path = _path(folder, step)
    write_atomic(path, save(tensors, {"header": json.dumps({"step": step, **header})}))
    for old in _files(folder)[:-KEEP]:
        old.unlink()
    return path


def read(folder: Path, clip: nn.Module, optimiser: torch.optim.Optimizer, step: int = 0) -> dict | None:
    """Restore the newest complete checkpoint, or that of a step; None where there is none. Gives its header."""
    for path in [_path(folder, step)] if step else reversed(_files(folder)):
        try:
            return _restore(path, clip, optimiser)
        except (SafetensorError, OSError) as error:
            print(f"warning: {path}: unreadable checkpoint ({error}); trying the one before", flush=True)
    return None


def _path(folder: Path, step: int) -> Path:
    return folder / f"step_{step:08d}.safetensors"


def _frozen(clip: nn.Module) -> set[str]:
    """What no step changes: a resumed run has it from the backbone, whose contents are part of the run key."""
    return {name for name, parameter in clip.named_parameters() if not parameter.requires_grad}


def _load(clip: nn.Module, state: dict[str, torch.Tensor]) -> None:
    wrong = clip.load_state_dict(state, strict=False)
    if wrong.unexpected_keys or set(wrong.missing_keys) - _frozen(clip):
        raise ValueError(f"checkpoint of another model: {wrong}")


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("step_*.safetensors"))


def _restore(path: Path, clip: nn.Module, optimiser: torch.optim.Optimizer) -> dict:
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
        header = json.loads(file.metadata()["header"])
    _load(clip, {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})
    for name, parameter in clip.named_parameters():
        state = {m: tensors[f"{m}.{name}"] for m in _MOMENTS if f"{m}.{name}" in tensors}
        if state:
            optimiser.state[parameter] = {m: v if m == "step" else v.to(parameter.device) for m, v in state.items()}
    return header

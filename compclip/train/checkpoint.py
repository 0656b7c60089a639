"""Resumable state: one file a checkpoint, tensors and a JSON header, written whole or not at all.

A file is a safetensors file: `model.*` the trained weights and all buffers, `exp_avg.*` and `exp_avg_sq.*` AdamW's
moments by parameter name; `beside.*` what a method keeps beside the model (`extras`). Frozen weights, as those below a
LoRA adapter, are not written.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from compclip.base.files import write_atomic
from compclip.train import extras
from compclip.train.extras import Extras

KEEP = 2
COUNTS = ("dropped", "asked", "had")  # of a header: pictures by reason, samples by part (`view_shares`)
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


class DamagedCheckpoint(Exception):
    """A file that is no checkpoint of the model at hand."""


def write(
    folder: Path,
    step: int,
    clip: nn.Module,
    optimiser: torch.optim.Optimizer,
    header: dict,
    extra_parts: Extras = extras.NONE,
) -> Path:
    """Save after `step` optimiser steps, and delete all but the last two; return the path.

    Raises UserError where it cannot be written.
    """
    frozen = _frozen_names(clip)
    tensors = {f"model.{k}": v.contiguous() for k, v in clip.state_dict().items() if k not in frozen}
    tensors |= {f"beside.{k}": v.contiguous() for k, v in extra_parts.state().items()}
    for name, parameter in _named_parameters(clip, extra_parts):
        state = optimiser.state.get(parameter, {})
        tensors |= {f"{moment}.{name}": state[moment].contiguous() for moment in _MOMENTS if moment in state}
    path = _checkpoint_path(folder, step)
    write_atomic(path, save(tensors, {"header": json.dumps({"step": step, **header})}))
    for old in _list_files(folder)[:-KEEP]:
        old.unlink()
    return path


def read(
    folder: Path, clip: nn.Module, optimiser: torch.optim.Optimizer, step: int = 0, extra_parts: Extras = extras.NONE
) -> dict | None:
    """Restore the newest complete checkpoint, or that of a step; return its header, or None where there is none."""
    for path in [_checkpoint_path(folder, step)] if step else reversed(_list_files(folder)):
        try:
            header, tensors = _read_file(path, clip, extra_parts)
        except (SafetensorError, OSError, DamagedCheckpoint) as error:
            print(f"warning: {path}: unreadable checkpoint ({error}); trying the one before", flush=True)
        else:
            _restore(tensors, clip, optimiser, extra_parts)
            return header
    return None


def _checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"step_{step:08d}.safetensors"


def _named_parameters(clip: nn.Module, extra_parts: Extras) -> list[tuple[str, nn.Parameter]]:
    """Return the parameters that may have moments, by their names in the file."""
    return [*clip.named_parameters(), *extra_parts.parameters()]


def _frozen_names(clip: nn.Module) -> set[str]:
    """Return the names of parameters that no step changes; a resumed run has them from the backbone."""
    return {name for name, parameter in clip.named_parameters() if not parameter.requires_grad}


def _list_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("step_*.safetensors"))


def _read_file(path: Path, clip: nn.Module, extra_parts: Extras) -> tuple[dict, dict[str, torch.Tensor]]:
    """Return header and tensors of a checkpoint, checked before anything of the model is changed."""
    if not path.is_file():
        raise DamagedCheckpoint("not a regular file")  # a pipe would be waited for
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
        header = _parse_header(file.metadata() or {}, path)
    _check_shapes(tensors, clip, extra_parts)
    return header, tensors


def _parse_header(metadata: dict[str, str], path: Path) -> dict:
    try:
        header = json.loads(metadata["header"])
    except (KeyError, ValueError, RecursionError) as error:
        raise DamagedCheckpoint("its header is no JSON") from error
    step = header.get("step") if isinstance(header, dict) else None
    if type(step) is not int or path.name != _checkpoint_path(path.parent, step).name:
        raise DamagedCheckpoint("its header is of another step")
    if not all(map(_are_counts, (header.get("dropped"), header.get("asked", {}), header.get("had", {})))):
        raise DamagedCheckpoint("its header lacks the counts of what was dropped, or of samples by part")
    return header


def _are_counts(value: object) -> bool:
    return isinstance(value, dict) and all(type(number) is int for number in value.values())


def _check_shapes(tensors: dict[str, torch.Tensor], clip: nn.Module, extra_parts: Extras) -> None:
    """Raise DamagedCheckpoint unless trained weights, buffers and moments are all those of this model."""
    model_state, frozen = clip.state_dict(), _frozen_names(clip)
    saved_model, extras_state, saved_extras = (
        _select_prefix(tensors, "model"),
        extra_parts.state(),
        _select_prefix(tensors, "beside"),
    )
    wrong = (set(saved_model) - set(model_state)) | (set(model_state) - set(saved_model) - frozen)
    wrong |= {
        k
        for k in set(saved_model) & set(model_state)
        if _shape_and_type(saved_model[k]) != _shape_and_type(model_state[k])
    }
    wrong |= {
        k
        for k in set(extras_state) | set(saved_extras)
        if k not in extras_state
        or k not in saved_extras
        or _shape_and_type(extras_state[k]) != _shape_and_type(saved_extras[k])
    }
    for name, parameter in _named_parameters(clip, extra_parts):
        moments = [tensors[key] for m in _MOMENTS if (key := f"{m}.{name}") in tensors]
        is_complete = len(moments) == len(_MOMENTS) and all(m.shape == parameter.shape for m in moments[:-1])
        if moments and not is_complete:
            wrong.add(name)
    if wrong:
        raise DamagedCheckpoint(f"of another model: {len(wrong)} tensors differ, as {min(wrong)!r}")


def _select_prefix(tensors: dict[str, torch.Tensor], kind: str) -> dict[str, torch.Tensor]:
    return {k.removeprefix(f"{kind}."): v for k, v in tensors.items() if k.startswith(f"{kind}.")}


def _shape_and_type(tensor: torch.Tensor) -> tuple:
    return tensor.shape, tensor.dtype


def _restore(
    tensors: dict[str, torch.Tensor], clip: nn.Module, optimiser: torch.optim.Optimizer, extra_parts: Extras
) -> None:
    clip.load_state_dict(_select_prefix(tensors, "model"), False)
    extras_state = extra_parts.state()
    with torch.no_grad():
        for name, value in _select_prefix(tensors, "beside").items():
            extras_state[name].copy_(value)
    for name, parameter in _named_parameters(clip, extra_parts):
        # the step count too: a fused AdamW wants it beside the parameter
        state = {m: tensors[f"{m}.{name}"].to(parameter.device) for m in _MOMENTS if f"{m}.{name}" in tensors}
        if state:
            optimiser.state[parameter] = state

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


class Damaged(Exception):
    """A file that is no checkpoint of the model at hand."""


def write(
    folder: Path,
    step: int,
    clip: nn.Module,
    optimiser: torch.optim.Optimizer,
    header: dict,
    beside: Extras = extras.NONE,
) -> Path:
    """Save after `step` optimiser steps and drop all but the last two. Raises UserError where it cannot be written."""
    frozen = _frozen(clip)
    tensors = {f"model.{k}": v.contiguous() for k, v in clip.state_dict().items() if k not in frozen}
    tensors |= {f"beside.{k}": v.contiguous() for k, v in beside.state().items()}
    for name, parameter in _named(clip, beside):
        state = optimiser.state.get(parameter, {})
        tensors |= {f"{moment}.{name}": state[moment].contiguous() for moment in _MOMENTS if moment in state}
    path = _path(folder, step)
    write_atomic(path, save(tensors, {"header": json.dumps({"step": step, **header})}))
    for old in _files(folder)[:-KEEP]:
        old.unlink()
    return path


def read(
    folder: Path, clip: nn.Module, optimiser: torch.optim.Optimizer, step: int = 0, beside: Extras = extras.NONE
) -> dict | None:
    """Restore the newest complete checkpoint, or that of a step; None where there is none. Gives its header."""
    for path in [_path(folder, step)] if step else reversed(_files(folder)):
        try:
            header, tensors = _contents(path, clip, beside)
        except (SafetensorError, OSError, Damaged) as error:
            print(f"warning: {path}: unreadable checkpoint ({error}); trying the one before", flush=True)
        else:
            _restore(tensors, clip, optimiser, beside)
            return header
    return None


def _path(folder: Path, step: int) -> Path:
    return folder / f"step_{step:08d}.safetensors"


def _named(clip: nn.Module, beside: Extras) -> list[tuple[str, nn.Parameter]]:
    """All that may have moments, by name in the file."""
    return [*clip.named_parameters(), *beside.parameters()]


def _frozen(clip: nn.Module) -> set[str]:
    """What no step changes: a resumed run has it from the backbone, whose contents are part of the run key."""
    return {name for name, parameter in clip.named_parameters() if not parameter.requires_grad}


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("step_*.safetensors"))


def _contents(path: Path, clip: nn.Module, beside: Extras) -> tuple[dict, dict[str, torch.Tensor]]:
    """Header and tensors, looked at before anything of the model is touched."""
    if not path.is_file():
        raise Damaged("not a regular file")  # a pipe would be waited for
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
        header = _header(file.metadata() or {}, path)
    _check_shapes(tensors, clip, beside)
    return header, tensors


def _header(metadata: dict[str, str], path: Path) -> dict:
    try:
        header = json.loads(metadata["header"])
    except (KeyError, ValueError, RecursionError) as error:
        raise Damaged("its header is no JSON") from error
    step = header.get("step") if isinstance(header, dict) else None
    if type(step) is not int or path.name != _path(path.parent, step).name:
        raise Damaged("its header is of another step")
    if not all(map(_are_counts, (header.get("dropped"), header.get("asked", {}), header.get("had", {})))):
        raise Damaged("its header lacks the counts of what was dropped, or of samples by part")
    return header


def _are_counts(value: object) -> bool:
    return isinstance(value, dict) and all(type(number) is int for number in value.values())


def _check_shapes(tensors: dict[str, torch.Tensor], clip: nn.Module, beside: Extras) -> None:
    """Raise Damaged where a checkpoint is not of this model: all that is trained, all buffers, whole moments."""
    own, frozen = clip.state_dict(), _frozen(clip)
    model, kept, given = _part(tensors, "model"), beside.state(), _part(tensors, "beside")
    wrong = (set(model) - set(own)) | (set(own) - set(model) - frozen)
    wrong |= {k for k in set(model) & set(own) if _kind(model[k]) != _kind(own[k])}
    wrong |= {k for k in set(kept) | set(given) if k not in kept or k not in given or _kind(kept[k]) != _kind(given[k])}
    for name, parameter in _named(clip, beside):
        moments = [tensors[key] for m in _MOMENTS if (key := f"{m}.{name}") in tensors]
        whole = len(moments) == len(_MOMENTS) and all(m.shape == parameter.shape for m in moments[:-1])
        if moments and not whole:
            wrong.add(name)
    if wrong:
        raise Damaged(f"of another model: {len(wrong)} tensors differ, as {min(wrong)!r}")


def _part(tensors: dict[str, torch.Tensor], kind: str) -> dict[str, torch.Tensor]:
    return {k.removeprefix(f"{kind}."): v for k, v in tensors.items() if k.startswith(f"{kind}.")}


def _kind(tensor: torch.Tensor) -> tuple:
    return tensor.shape, tensor.dtype


def _restore(
    tensors: dict[str, torch.Tensor], clip: nn.Module, optimiser: torch.optim.Optimizer, beside: Extras
) -> None:
    clip.load_state_dict(_part(tensors, "model"), False)
    kept = beside.state()
    with torch.no_grad():
        for name, value in _part(tensors, "beside").items():
            kept[name].copy_(value)
    for name, parameter in _named(clip, beside):
        # the step count too: a fused AdamW wants it beside the parameter
        state = {m: tensors[f"{m}.{name}"].to(parameter.device) for m in _MOMENTS if f"{m}.{name}" in tensors}
        if state:
            optimiser.state[parameter] = state

"""Saved LoRA adapters in PEFT's format, from a run or from elsewhere, checked and added to their model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from compclip.base.errors import UserError, one_line
from compclip.base.files import read_json
from compclip.model import lora, weight_files
from compclip.model.clip_model import ClipModule

LARGEST_RANK, LARGEST_ALPHA = 4096, 1e6
# PEFT's options that make an adapter another sum than W + alpha / rank B A.
OTHER_SUMS = ("use_rslora", "use_dora", "use_qalora", "lora_bias", "bias", "rank_pattern", "alpha_pattern",
              "modules_to_save", "trainable_token_indices", "layer_replication", "fan_in_fan_out")  # fmt: skip
ADVICE = "give the backbone that it was trained on"
_FACTOR = re.compile(r"([\w.]+)\.lora_([AB])\.weight")


def load_adapter(clip: ClipModule, folder: str | Path) -> None:
    """Add a saved adapter to the model that it was trained on. Raises UserError where it fits another."""
    folder = Path(folder)
    rank, alpha = _read_settings(folder / lora.CONFIG)
    saved = weight_files.read_tensors(folder / lora.WEIGHTS)
    names = sorted({name.partition(".lora_")[0] for name in saved})  # the config's pattern of them is not used
    matrices = [name for name in names if _is_matrix(clip, saved, name)]
    _check_factors(saved, matrices, rank, folder)
    try:
        lora.add_layers(clip, rank, alpha, names, matrices)
    except (KeyError, ValueError, RuntimeError) as error:
        raise UserError(f"{folder}: not an adapter of this model: {one_line(str(error))[:160]}; {ADVICE}") from error
    expected = {name.replace(f".{lora.NAME}.", "."): factor for name, factor in lora.adapter_parameters(clip).items()}
    if foreign := sorted(set(saved) - set(expected)):
        raise UserError(f"{folder}: an adapter of another model: {foreign[0]!r} has no place here; {ADVICE}")
    for name, factor in expected.items():
        if name not in saved or saved[name].shape != factor.shape:
            fault = f"has {list(saved[name].shape)}" if name in saved else "lacks it"
            raise UserError(
                f"{folder}: not an adapter of this model: {name!r} is {list(factor.shape)} here, and it {fault}; "
                f"{ADVICE}"
            )
        weight_files.check_numbers(saved[name], factor, f"{folder}: {name!r}")
        factor.data.copy_(saved[name])


def _read_settings(path: Path) -> tuple[int, float]:
    """Return rank and alpha. Raises UserError for an adapter whose sum is another than W + alpha / rank B A."""
    content = read_json(path)
    config = content if isinstance(content, dict) else {}
    rank: Any = config.get("r")
    alpha: Any = config.get("lora_alpha")
    if type(rank) is not int or not 1 <= rank <= LARGEST_RANK:
        raise UserError(f"{path}: r={str(rank)[:40]}: must be a whole number from 1 to {LARGEST_RANK}")
    if type(alpha) not in (int, float) or not 0 < alpha <= LARGEST_ALPHA:
        raise UserError(f"{path}: lora_alpha={str(alpha)[:40]}: must be a number above 0, at most {LARGEST_ALPHA:g}")
    if unsupported := [key for key in OTHER_SUMS if config.get(key) not in (None, False, "none", {}, [])]:
        raise UserError(
            f"{path}: {unsupported[0]}: adapters with it are not supported; give the merged checkpoint instead"
        )
    return rank, alpha


def _is_matrix(clip: nn.Module, saved: dict[str, Tensor], name: str) -> bool:
    """Return whether the factors of a convolution are those of one matrix."""
    first, module = saved.get(f"{name}.lora_A.weight"), dict(clip.named_modules()).get(name)
    if first is None or first.ndim != 2 or not isinstance(module, nn.Conv2d):
        return False
    lora.check_convolution(name, module)
    return True


def _check_factors(saved: dict[str, Tensor], matrices: list[str], rank: int, folder: Path) -> None:
    """Raise UserError for what is no factor, and for one of another rank; those of matrices are compared later."""
    if not saved:
        raise UserError(f"{folder}: holds no factors of an adapter; fetch the folder again")
    for name, factor in saved.items():
        if not _FACTOR.fullmatch(name):
            raise UserError(f"{folder}: {name[:120]!r} is no factor of an adapter; give a folder that PEFT wrote")
        if name.partition(".lora_")[0] in matrices:
            continue
        if factor.ndim < 2 or factor.shape[0 if ".lora_A." in name else 1] != rank:
            raise UserError(f"{folder}: {name!r} is {list(factor.shape)}, not of rank {rank}; fetch the folder again")

"""Checkpoints published by others, scored but never trained here: each is a variant with a `path`.

The run's checkpoint has the published weights in open_clip's format. `compclip fetch` downloads most of them to
models/released, where the stage `keys` finds them. docs/released.md lists their layouts, and those that cannot be had.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.methods import _check

if TYPE_CHECKING:
    from compclip.config.grid import Run
    from compclip.config.sections import Backbone
    from compclip.model.clip_model import ClipModel

TRAINS = False
FETCHED = ("models", "released")


@dataclass(frozen=True)
class Config:
    path: str = ""  # a file, or a folder in open_clip's or transformers' format, relative to the project
    model: str = ""  # its architecture's name in open_clip; "": the grid's backbone
    activation: str = ""  # gelu or quickgelu, if the file does not say and the model exists with both
    tokenizer: str = ""  # a folder, if the model's own is not installed
    lora_alpha: float = 1.0  # of adapters in its folder, W + alpha / rank B A; FSC-CLIP, SVLC, DAC: 1
    resize_mode: str = ""  # how pictures are made square: shortest, longest, squash; "": the architecture's way
    interpolation: str = ""  # bicubic, bilinear; "": the architecture's way

    def __post_init__(self) -> None:
        _check.one_of(
            self,
            activation=("", "gelu", "quickgelu"),
            resize_mode=("", "shortest", "longest", "squash"),
            interpolation=("", "bicubic", "bilinear"),
        )
        is_outside = not 0 < self.lora_alpha < math.inf
        _check.refuse(is_outside, f"lora_alpha={self.lora_alpha}: must be > 0 and finite")


def check(cfg: Config, backbone: Backbone, where: str) -> None:
    """Raise UserError if, by their names, a checkpoint and a backbone of its grid have different architectures."""
    theirs = (cfg.model or backbone.model).removesuffix("-quickgelu")
    ours = backbone.model.removesuffix("-quickgelu")
    are_architectures = ":" not in theirs + ours and not theirs.endswith(".json") and not ours.endswith(".json")
    fault = f"{where}: is a {cfg.model}, not a {backbone.model}; give it a grid of its own architecture"
    _check.refuse(are_architectures and theirs != ours, fault)


def reads(cfg: Config) -> dict[str, str]:
    """Return the path that its run depends on, and how to get it. Raises UserError if none is given.

    A folder in models/released has the name of its entry in the catalogue.
    """
    fault = "method released: names no checkpoint; name a variant of it that has a path: released.NAME"
    _check.refuse(not cfg.path, fault)
    folders = Path(cfg.path).parts
    entry = folders[2] if folders[:2] == FETCHED and len(folders) > 2 else ""
    return {cfg.path: f"run `compclip fetch {entry}`" if entry else "put it there"}


def helpers(cfg: Config) -> dict[str, str]:
    """Return the folder of the tokenizer, if one is given."""
    return {cfg.tokenizer: "the tokenizer of its model on a hub"} if cfg.tokenizer else {}


def model(run: Run, root: Path, start: dict[str, Any], device: str) -> ClipModel:
    """Return the published model. Raises UserError if its architecture differs from that of the backbone `start`."""
    from compclip.model import backbone, weight_files

    cfg = run.method
    path = root / run.method.path
    layout = weight_files.find_layout(path)
    released = backbone.load(
        path,
        "" if layout == "open_clip" else cfg.model or run.backbone.model,
        device,
        cfg.tokenizer,
        cfg.activation,
        alpha=cfg.lora_alpha,
    )
    for key in ("embed_dim", "vision_cfg", "text_cfg"):
        is_other = _comparable_section(released.model_cfg, key) != _comparable_section(start, key)
        fault = f"of another architecture than backbone {run.cell.backbone}: {key} differs"
        _check.refuse(is_other, f"{path}: {fault}; give {run.cell.method} a grid of its own")
    pictures = {"resize_mode": cfg.resize_mode, "interpolation": cfg.interpolation}
    return backbone.prepare_otherwise(released, {key: value for key, value in pictures.items() if value})


def _comparable_section(model_cfg: dict[str, Any], key: str) -> Any:
    """Return a part of a config without keys that may differ: lengths, class tokens, positions, names of towers."""
    free = ("context_length", "class_tokens", "rotary", "timm_model_pretrained", "hf_model_pretrained",
            "hf_tokenizer_name", "tokenizer_kwargs")  # fmt: skip
    section = model_cfg.get(key)
    return {k: v for k, v in section.items() if k not in free} if isinstance(section, dict) else section

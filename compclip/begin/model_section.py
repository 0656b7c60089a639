"""Recognise a model: open_clip's name and tag, a hub's repository, a folder or a file of weights, for `backbones`.

The architecture of a file is the one of open_clip's that has tensors of just its names and shapes; no weight is built.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import open_clip
import torch
from open_clip.model import CLIPTextCfg, CLIPVisionCfg
from torch import Tensor

from compclip.base.errors import UserError, unknown
from compclip.base.safe_names import SafeName
from compclip.evaluate import run_checkpoints
from compclip.model import author_layouts, heads, model_config, rotary_text, weight_files
from compclip.model.author_layouts import AuthorsModel
from compclip.model.clip_model import CONFIG, GELU, QUICK, describe_difference

QUICKGELU = "-quickgelu"  # end of the names of open_clip's models with OpenAI's activation
REPOSITORY = re.compile(r"[\w-][\w.-]*/[\w.-]+", re.ASCII)
ENDINGS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")  # of weights
BLOCK = re.compile(r"(visual|text)?\.?transformer\.resblocks\.(\d+)\.ln_1\.weight")
SCALARS = ("logit_scale", "logit_bias")  # which some files have as vectors of one


def find_model(text: str, activation: str = "") -> tuple[str, dict[str, Any]]:
    """Return name and section of `backbones` for a model; nothing is fetched.

    `text`: MODEL::TAG, MODEL::FILE, OWNER/NAME of a hub, a folder of open_clip's or transformers' format, or a file.
    `activation`: gelu or quickgelu, of a file that does not tell. Raises UserError for what is none of these, an
    unknown model or tag, weights of no or several architectures, and an activation that cannot be told.
    """
    weight_files.check_activation_name(activation)
    model, sign, weights = text.partition("::")
    if sign and not os.path.exists(text):
        section = _name_tag(model, weights, activation)
    elif os.path.exists(text):
        section = _read_path(Path(text), activation)
    elif _is_repository(text):
        section = {"model": f"hf-hub:{text.removeprefix('hf-hub:')}"}
    else:
        _refuse_absent(text)
    return _make_name(text), section


def _is_repository(text: str) -> bool:
    """Return whether a text names a hub's repository; one below a folder of this machine is a misspelt path."""
    is_path = Path(text).parent.is_dir() or Path(text).suffix.lower() in ENDINGS
    return text.startswith("hf-hub:") or (REPOSITORY.fullmatch(text) is not None and not is_path)


def _make_name(text: str) -> SafeName:
    """Return what a backbone is called, by its file where it has one; a dash would end its name in those of runs."""
    file = next(filter(os.path.exists, (text, text.partition("::")[2])), "")
    stem = Path(os.path.abspath(file)).name.partition(".")[0] if file else text.removeprefix("hf-hub:")
    name = re.sub(r"\W+", "_", stem.lower()).strip("_")
    return SafeName(name if name[:1].isalpha() else f"model_{name}", "backbone")


def _refuse_absent(text: str) -> NoReturn:
    """Raise UserError for what is no path: tags of a model that is named alone, else close names."""
    tags = open_clip.list_pretrained_tags_by_model(text)
    if tags:
        raise UserError(f"--model {text}: which weights? give {text}::{tags[0]}, or another of {', '.join(tags)}")
    run_checkpoints.check_there(text)
    raise UserError(f"--model {text}: no such file or folder; correct the path")


# --- open_clip's names ---------------------------------------------------------------------------------------------


def _name_tag(model: str, weights: str, activation: str) -> dict[str, Any]:
    """Return the section of an architecture with a hub's tag, or with a file.

    A tag whose weights want QuickGELU gets the model of that name: open_clip no longer does it by itself.
    """
    models = open_clip.list_models()
    if model not in models:
        raise unknown("model", model, models, "--model")
    if os.path.exists(weights):
        return _read_path(Path(weights), activation, model)
    tags = [*open_clip.list_pretrained_tags_by_model(model), model_config.RANDOM]
    if weights not in tags:
        raise unknown("weights", weights, tags, f"--model {model}")
    config = open_clip.pretrained.get_pretrained_cfg(model, weights)
    wants_quick = config.get("quick_gelu", False) and not open_clip.get_model_config(model).get("quick_gelu", False)
    return {"model": f"{model}{QUICKGELU}" if wants_quick else model, "weights": weights}


# --- folders and files ---------------------------------------------------------------------------------------------


def _read_path(path: Path, activation: str, model: str = "") -> dict[str, Any]:
    """Return the section of a folder, or of weights of the architecture `model` ("": told by their shapes)."""
    layout = weight_files.find_layout(path)
    if layout == "open_clip":
        model_cfg = model_config.read_config(path / CONFIG)["model_cfg"]
        weight_files.check_activation(weight_files.find_weights(path), f"of {CONFIG}", model_cfg, activation)
        return {"model": f"local-dir:{os.path.abspath(path)}"}
    if path.is_dir() and layout == "file":
        raise UserError(f"--model {path}: a folder without {CONFIG} or config.json; give the weights file")
    theirs = _read_tensors(path)
    if model and not _is_of(model, theirs):
        raise UserError(f"--model {path}: a checkpoint of another architecture than {model}; correct the name")
    return _section_of_file(model or _choose_model(path, theirs), path, theirs, activation)


def _read_tensors(path: Path) -> AuthorsModel:
    """Read weights by open_clip's names. Raises UserError for those of a head, which training would lose."""
    theirs = author_layouts.convert(weight_files.read_weights(path), path)
    if theirs.head is not None:
        raise UserError(f"{path}: has a head ({theirs.head.kind}), which training would lose; {heads.ADVICE}")
    return theirs


def _section_of_file(model: str, path: Path, theirs: AuthorsModel, activation: str) -> dict[str, Any]:
    """Return the section of weights of an architecture, of the name that computes their activation.

    Raises UserError where nothing says which one that is, or two things say different ones.
    """
    base = model.removesuffix(QUICKGELU)
    stated = activation or theirs.activation or (QUICK if model.endswith(QUICKGELU) else "")
    section = {"model": base, "weights": os.path.abspath(path)}
    if f"{base}{QUICKGELU}" not in open_clip.list_models():
        _check_activation(path, model, stated)
    elif _accepts(path, base, theirs.activation):
        _check_activation(path, base, activation)
    elif _accepts(path, base, GELU) and not stated:
        raise UserError(
            f"--model {path}: a {base} that does not say with which activation it was trained; add --activation "
            f"{QUICK} (OpenAI's weights and what was tuned from them) or --activation {GELU} (LAION-2B, DataComp)"
        )
    elif _accepts(path, base, stated):
        section["activation"] = stated
    else:
        section["model"] = f"{base}{QUICKGELU}"
        _check_activation(path, section["model"], stated)
    return section


def _check_activation(path: Path, model: str, stated: str) -> None:
    weight_files.check_activation(path, model, open_clip.get_model_config(model), stated)


def _accepts(path: Path, model: str, stated: str) -> bool:
    """Return whether a model computes the activation of a file, which it, or else `stated`, says."""
    try:
        _check_activation(path, model, stated)
    except UserError:
        return False
    return True


def _is_of(model: str, theirs: AuthorsModel) -> bool:
    """Return whether weights may be of a model; those of one that is left out by `match_tensors` may."""
    model_cfg = open_clip.get_model_config(model)
    return not _measure_config(model_cfg) or _compare(model_cfg, theirs) is not None


def _choose_model(path: Path, theirs: AuthorsModel) -> str:
    """Return the architecture of weights. Raises UserError where none of open_clip's has them, or several have."""
    names = match_tensors(theirs)
    if len(names) == 1:
        return names[0]
    fault = f"{', '.join(names)} have tensors of these names and shapes" if names else "no model of open_clip has them"
    raise UserError(f"--model {path}: {fault}; give the one that it is as --model MODEL::{path}")


# --- the architecture of tensors -----------------------------------------------------------------------------------


def match_tensors(theirs: AuthorsModel) -> list[str]:
    """Return open_clip's models whose tensors have these names and shapes, without twins by QuickGELU.

    Positions may be of pictures or texts of another length, where no model has them as they are. CoCa and models with a
    text tower of the hub are left out.
    """
    numbers = _measure_state(theirs.state)
    resized_by_name: dict[str, int] = {}
    for name in open_clip.list_models():
        model_cfg = open_clip.get_model_config(name)
        is_other = name.endswith(QUICKGELU) and name.removesuffix(QUICKGELU) in open_clip.list_models()
        if not is_other and numbers.items() <= _measure_config(model_cfg).items():
            resized = _compare(model_cfg, theirs)
            if resized is not None:
                resized_by_name[name] = resized
    least = min(resized_by_name.values(), default=0)
    return sorted(name for name, resized in resized_by_name.items() if resized == least)


def _measure_state(state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the numbers of a config that can be read off tensors, for a first choice among models."""
    numbers: dict[str, Any] = {"is_timm": any(name.startswith("visual.trunk.") for name in state)}
    words = state.get("token_embedding.weight", state.get("text.token_embedding.weight"))
    if words is not None and words.ndim == 2:
        numbers["vocab_size"], numbers["text_width"] = words.shape
    projection = state.get("visual.proj")
    if projection is not None and projection.ndim == 2:
        numbers["vision_width"], numbers["embed_dim"] = projection.shape
    for name in ("text_projection", "text.text_projection"):
        if name in state and state[name].ndim == 2:
            numbers["embed_dim"] = state[name].shape[1]
    blocks = [match for match in map(BLOCK.fullmatch, state) if match]
    for tower in ("vision", "text"):
        layers = [int(match[2]) for match in blocks if (match[1] == "visual") == (tower == "vision")]
        if layers:
            numbers[f"{tower}_layers"] = max(layers) + 1
    return numbers


def _measure_config(model_cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same numbers of a config; {} of one that is left out."""
    vision = model_cfg["vision_cfg"]
    text = model_cfg["text_cfg"]
    if text.get("hf_model_name") or "multimodal_cfg" in model_cfg:
        return {}
    return {
        "is_timm": "timm_model_name" in vision,
        "vocab_size": text.get("vocab_size", CLIPTextCfg.vocab_size),
        "text_width": text.get("width", CLIPTextCfg.width),
        "vision_width": vision.get("width", CLIPVisionCfg.width),
        "embed_dim": model_cfg["embed_dim"],
        "vision_layers": vision.get("layers", CLIPVisionCfg.layers),
        "text_layers": text.get("layers", CLIPTextCfg.layers),
    }


def _compare(model_cfg: dict[str, Any], theirs: AuthorsModel) -> int | None:
    """Return how many of two kinds of positions differ in length; None where other tensors differ."""
    context_length = model_cfg["text_cfg"].get("context_length", CLIPTextCfg.context_length)
    model_config.complete_config(model_cfg, theirs.state)
    model_cfg["vision_cfg"] |= theirs.vision_cfg
    model_cfg["text_cfg"] |= theirs.text_cfg
    with torch.device("meta"):
        expected = rotary_text.build_module(model_cfg).state_dict()
    state = dict(theirs.state)
    sides = [tensors.pop(weight_files.POSITIONS, None) for tensors in (state, expected)]
    lengths = [positions.shape for positions in sides if positions is not None]
    for name in [*state]:
        if name in SCALARS or (name not in expected and name.endswith(weight_files.BUFFERS)):
            del state[name]
            expected.pop(name, None)
    if len(lengths) == 1 or describe_difference(state, expected):
        return None
    is_resized = model_cfg["text_cfg"].get("context_length", context_length) != context_length
    return len(set(lengths[1:]) - {*lengths[:1]}) + is_resized

"""Weights as files: what a hub has, what a file holds, and which activation it was trained with.

A file holds a raw state dict, {"state_dict": ...}, or is the TorchScript archive in which OpenAI published its own.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from compclip.base.errors import UserError, unknown
from compclip.base.files import read_json, write_atomic
from compclip.base.lazy import open_clip
from compclip.model import hub

CONFIG = "open_clip_config.json"
# What a folder in open_clip's format calls its weights, best first.
NAMES = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin")
GELU, QUICK = "gelu", "quickgelu"
_ARCHIVE_SIZES = ("input_resolution", "context_length", "vocab_size")  # no weights


def activation(model_cfg: dict) -> str:
    """The activation that a config asks for."""
    return QUICK if model_cfg.get("quick_gelu", False) else GELU


def write(path: Path, state: dict[str, Tensor], model_cfg: dict) -> None:
    """Write weights that carry the name of their activation, also where the file leaves its folder."""
    tensors = {name: tensor.contiguous() for name, tensor in state.items()}
    write_atomic(path, save(tensors, {"activation": activation(model_cfg)}))


def read(path: Path) -> dict[str, Tensor]:
    """A file's tensors by open_clip's names, floats as float32. Raises UserError for one that cannot be read."""
    if not path.is_file():
        raise UserError(f"{path}: no such weights file; give an existing one")
    try:
        state = _tensors(path)
        state = state.get("state_dict", state)
        prefix = "module." if all(k.startswith("module.") for k in state) else ""
        return {k.removeprefix(prefix): v.float() if v.is_floating_point() else v for k, v in state.items()}
    except Exception as error:  # pickle, zip and safetensors errors share no base
        raise UserError(f"{path}: not a readable weights file ({type(error).__name__}); fetch it again") from error


def _tensors(path: Path) -> dict:
    if path.suffix == ".safetensors":
        return load_file(path)
    if _is_archive(path):
        state = torch.jit.load(path, map_location="cpu").state_dict()
        return {k: v for k, v in state.items() if k not in _ARCHIVE_SIZES}
    return torch.load(path, "cpu", weights_only=True)


def _is_archive(path: Path) -> bool:
    """Whether it is TorchScript, as OpenAI's files are."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return any(name.endswith("/constants.pkl") for name in file.namelist())


def recorded(path: Path) -> tuple[str, str]:
    """The activation that a file was trained with and what says so; empty where nothing does."""
    if path.suffix == ".safetensors" and path.is_file():
        try:
            with safe_open(path, "pt") as file:
                if found := (file.metadata() or {}).get("activation"):
                    return found, "its own header"
        except Exception as error:  # safetensors' error has no public base
            raise UserError(f"{path}: not a readable weights file ({type(error).__name__}); fetch it again") from error
    beside = path.parent / CONFIG
    if path.name in NAMES and beside.is_file():
        return activation(read_json(beside).get("model_cfg", {})), str(beside)
    return (QUICK, "OpenAI's archive") if path.is_file() and _is_archive(path) else ("", "")


def check_stated(activation: str) -> None:
    """Raises UserError for an activation that is none of ours; none stated is fine."""
    if activation and activation not in (GELU, QUICK):
        raise unknown("activation", activation, (GELU, QUICK), "activation")


def check_activation(path: Path, name: str, model_cfg: dict, stated: str = "") -> None:
    """Raises UserError where a file was trained with another activation than the model computes, or cannot tell.

    With the wrong one every tensor fits and every embedding is off. A name that open_clip has with and without
    -quickgelu does not tell by itself that the plain one was meant.
    """
    check_stated(stated)
    found, source = recorded(path)
    for trained, says in ((found, source), (stated, "activation")):
        if trained and trained != activation(model_cfg):
            raise UserError(
                f"{path}: trained with {trained} (says {says}), but model {name} computes "
                f"{activation(model_cfg)}; {_other(name, trained)}"
            )
    twin = f"{name}-quickgelu"
    if not found and not stated and twin in open_clip.list_models():
        raise UserError(
            f"{path}: does not say with which activation it was trained; give model {twin} for OpenAI's "
            f"weights and what was tuned from them, or activation: {GELU} (LAION-2B, DataComp)"
        )


def _other(name: str, trained: str) -> str:
    other = f"{name}-quickgelu" if trained == QUICK else name.removesuffix("-quickgelu")
    return f"give model {other}" if other in open_clip.list_models() else "give the config that it was trained with"


def fetch_tag(name: str, tag: str, model_cfg: dict) -> dict:
    """Have the weights of a tag in the hub's cache; gives how their pictures are prepared.

    Raises UserError for an unknown tag, another activation, and, with the place to put it, a file that cannot be had.
    """
    tags = open_clip.list_pretrained_tags_by_model(name)
    if tag not in tags:
        raise unknown("weights", tag, tags, f"model {name}")
    cfg = open_clip.pretrained.get_pretrained_cfg(name, tag)
    if cfg.get("quick_gelu", False) and activation(model_cfg) != QUICK:
        raise UserError(f"model {name} with weights {tag!r}: trained with QuickGELU; use {name}-quickgelu")
    try:
        with hub.asked():
            open_clip.pretrained.download_pretrained(cfg)
    except (OSError, RuntimeError) as error:
        why = type(error).__name__
        raise UserError(f"{name}::{tag}: cannot fetch the weights ({why}); {_download(cfg)}") from error
    return preprocessing(cfg)


def preprocessing(cfg: dict) -> dict:
    """How the pictures of a tag's weights are prepared."""
    return {k: cfg[k] for k in ("mean", "std", "interpolation", "resize_mode", "fill_color") if k in cfg}


def usual_preprocessing(name: str) -> dict:
    """How an architecture's pictures are prepared with its first known weights; open_clip's default where it has none.

    Random weights and files by path say nothing of it: SigLIP squashes to the square and scales to [-1, 1].
    """
    tags = open_clip.list_pretrained_tags_by_model(name)
    return preprocessing(open_clip.pretrained.get_pretrained_cfg(name, tags[0])) if tags else {}


def fetch_repository(repository: str) -> Path:
    """The folder of a hub's repository in open_clip's format, from the cache or fetched."""
    try:
        with hub.asked():
            config = Path(open_clip.pretrained.download_pretrained_from_hf(repository, filename=CONFIG))
            open_clip.pretrained.download_pretrained_from_hf(repository)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(
            f"hf-hub:{repository}: cannot fetch it ({type(error).__name__}); {_download({'hf_hub': repository + '/'})}"
        ) from error
    return config.parent


def _download(cfg: dict) -> str:
    """Which file of which address goes where."""
    repository, _, file = cfg.get("hf_hub", "").rpartition("/")
    if not repository:
        file = Path(cfg["url"]).name
        return f"download {cfg['url']} to {Path.home() / '.cache' / 'clip' / file}, or give its path as weights"
    file = file or NAMES[0]
    return (
        f"download {file}, {CONFIG} and, where there is one, the tokenizer of {hub.address(repository)} into a "
        f"folder and give it as weights, or fill the cache: {hub.cached(repository, file)}"
    )


def in_folder(folder: Path) -> Path:
    """The weights file of a folder in open_clip's format. Raises UserError where there is none."""
    for name in NAMES:
        if (folder / name).is_file():
            return folder / name
    raise UserError(f"{folder}: has {CONFIG} but no weights; put {NAMES[0]} there")

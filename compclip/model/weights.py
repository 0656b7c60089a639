"""Weights as files: what a hub has, what a file holds, and which activation it was trained with.

A file holds a raw state dict, one below a key (Lightning, open_clip, OpenAI's clip package as its users save it), with
adapters beside the weights or without, or is the TorchScript archive in which OpenAI published its own. A folder is
open_clip's or transformers'.
"""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from compclip.base.errors import UserError, unknown
from compclip.base.files import write_atomic
from compclip.base.lazy import open_clip
from compclip.model import architecture, hub, loralib, pickled, torchscript, transformers_folder

CONFIG = "open_clip_config.json"
# What a folder in open_clip's format calls its weights, best first.
NAMES = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin")
GELU, QUICK = "gelu", "quickgelu"
_ARCHIVE_SIZES = ("input_resolution", "context_length", "vocab_size")  # no weights
KEYS = ("state_dict", "model_state_dict", "model")  # below which a file may hold its tensors
PREFIXES = ("module.", "model.", "_orig_mod.")  # of DDP, of Lightning and wrappers, of torch.compile
LAYOUT = f"give a file of tensors by name, plain or below the key {', '.join(KEYS[:-1])} or {KEYS[-1]}"
LAYOUTS = ("open_clip", "transformers", "towers", "file")
SHARED = 4  # times that tensors may stand on the same bytes, all told


def activation(model_cfg: dict) -> str:
    """The activation that a config asks for."""
    return QUICK if model_cfg.get("quick_gelu", False) else GELU


def write(path: Path, state: dict[str, Tensor], model_cfg: dict) -> None:
    """Write weights that carry the name of their activation, also where the file leaves its folder."""
    tensors = {name: tensor.contiguous() for name, tensor in state.items()}
    write_atomic(path, save(tensors, {"activation": activation(model_cfg)}))


def layout(path: Path) -> str:
    """How weights lie at a path, one of LAYOUTS: two folders, two towers in folders of their own, or a file."""
    if (path / CONFIG).is_file():
        return LAYOUTS[0]
    if transformers_folder.holds(path):
        return LAYOUTS[1] if (path / transformers_folder.CONFIG).is_file() else LAYOUTS[2]
    return LAYOUTS[3]


def read(path: Path, alpha: float = 1.0) -> dict[str, Tensor]:
    """Tensors by open_clip's names, floats as float32, adapters of `alpha` merged; nothing in a file is run.

    Raises UserError for a file that cannot be read, holds something else, or would grow beyond its size.
    """
    if transformers_folder.holds(path):
        parts = [_file(file) for file in transformers_folder.files(path)]
        return transformers_folder.renamed({name: tensor for part in parts for name, tensor in part.items()})
    return loralib.merged(_file(path), alpha, path)


def _file(path: Path) -> dict[str, Tensor]:
    """A file's own tensors, without what wrappers put before their names."""
    if not path.is_file():
        raise UserError(f"{path}: no such weights file; give an existing one")
    try:
        state = _tensors(path)
    except torchscript.Fault as error:
        raise UserError(f"{path}: not a readable weights file: {error}; fetch it again") from error
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path}: not a readable weights file: damaged, or with objects of its authors' code, which is not run "
            "here; fetch it again, or where you trust it save its state_dict alone"
        ) from error
    except Exception as error:  # pickle, zip and safetensors errors share no base
        raise UserError(f"{path}: not a readable weights file ({type(error).__name__}); fetch it again") from error
    state = _chosen(state)
    _check_tensors(state, path)
    return {k: v.float() if v.is_floating_point() else v for k, v in _unprefixed(state).items()}


def _chosen(held: Any) -> Any:
    """The part of what a file holds that is its weights."""
    below = (held.get(key) for key in KEYS) if isinstance(held, dict) else ()
    return next((part for part in below if isinstance(part, dict)), held)


def _unprefixed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights by the names that they have in the model itself; what OpenAI's archives say of sizes is none."""
    state = {name: tensor for name, tensor in state.items() if name not in _ARCHIVE_SIZES}
    while state and (shared := [p for p in PREFIXES if all(name.startswith(p) for name in state)]):
        state = {name.removeprefix(shared[0]): tensor for name, tensor in state.items()}
    return state


def _tensors(path: Path) -> Any:
    if path.suffix == ".safetensors":
        return load_file(path)
    if _is_archive(path):
        return torchscript.read(path)
    _check_growth(path)
    try:
        return torch.load(path, "cpu", weights_only=True)
    except pickle.UnpicklingError:  # objects beside the tensors: settings, an optimiser, a number of numpy's
        if not zipfile.is_zipfile(path):
            raise
        return torchscript.saved(path, _chosen)


def _check_growth(path: Path) -> None:
    """torch writes nothing compressed: what would unpack to more than the file is made to fill the memory."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            if sum(info.file_size for info in file.infolist()) > path.stat().st_size:
                raise torchscript.Fault("its parts together are larger than the file")


def _check_tensors(state: Any, path: Path) -> None:
    """Raise UserError where a file holds something else than plain tensors by name, or they are larger than it."""
    if not isinstance(state, dict):
        raise UserError(f"{path}: holds a {type(state).__name__}, not tensors by name; {LAYOUT}")
    for name, tensor in state.items():
        if not isinstance(name, str):
            raise UserError(f"{path}: names something by a {type(name).__name__}, not by a text; {LAYOUT}")
        if not isinstance(tensor, Tensor):
            kind = tensor.kind[:80] if isinstance(tensor, pickled.Object) else type(tensor).__name__
            raise UserError(f"{path}: {name[:80]!r} is a {kind}, not a tensor; {LAYOUT}")
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
            raise UserError(f"{path}: {name[:80]!r} is no plain tensor; save it dense, on the CPU, not quantized")
    if sum(t.nbytes for t in state.values()) > SHARED * path.stat().st_size:
        raise UserError(f"{path}: its tensors are larger than the file; fetch it again")


def fill(clip: nn.Module, state: dict[str, Tensor], path: Path) -> None:
    """Load weights strictly, in place.

    Raises UserError naming the tensor for those of another architecture, and those that are no numbers to compute with.
    """
    own = clip.state_dict()
    for name in ("logit_scale", "logit_bias"):  # some files have them as vectors of one
        if name in state and name in own and state[name].numel() == 1:
            state[name] = state[name].reshape(own[name].shape)
    if wrong := sorted(set(own) ^ set(state)) or sorted(k for k in own if own[k].shape != state[k].shape):
        raise UserError(
            f"{path}: a checkpoint of another architecture: {len(wrong)} tensors differ, as "
            f"{_difference(wrong[0], own, state)}; give the model it was trained with"
        )
    for name, tensor in state.items():
        check_numbers(tensor, own[name], f"{path}: {name!r}")
    clip.load_state_dict(state)


def _difference(name: str, own: dict[str, Tensor], state: dict[str, Tensor]) -> str:
    """How a tensor of a file differs from the model's, in words."""
    if name not in own or name not in state:
        return f"{name[:120]!r}, which {'the model' if name in state else 'the file'} lacks"
    return f"{name!r}, {list(state[name].shape)} and not {list(own[name].shape)}"


def check_numbers(tensor: Tensor, own: Tensor, what: str) -> None:
    """Raise UserError for weights of another kind of number than the model's, and for those that are none."""
    if own.is_floating_point() != tensor.is_floating_point() or tensor.is_complex():
        wanted = "floats" if own.is_floating_point() else "whole numbers"
        raise UserError(f"{what}: holds {str(tensor.dtype).removeprefix('torch.')}, not {wanted}; convert the file")
    if not torch.isfinite(tensor.sum()) and not torch.isfinite(tensor).all():  # the sum alone is read in one pass
        raise UserError(f"{what}: holds NaN or infinite weights; the training diverged, give another checkpoint")


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
    if transformers_folder.holds(path):
        found = transformers_folder.activation(path)
        return found, transformers_folder.CONFIG if found else ""
    beside = path.parent / CONFIG
    if path.name in NAMES and beside.is_file():
        return activation(architecture.read(beside)["model_cfg"]), str(beside)
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

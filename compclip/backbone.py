"""open_clip models: made by name and weights, read from and written to open_clip's own files.

B images or texts, N patches, T text positions, W width, D joint dim.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import open_clip
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from compclip.errors import UserError, unknown
from compclip.files import fingerprint, read_json, write_atomic, write_json

WEIGHTS, CONFIG = "open_clip_model.safetensors", "open_clip_config.json"


@dataclass(frozen=True)
class Model:
    """An open_clip model with what is needed to feed it, and the config that makes it again in plain open_clip."""

    clip: nn.Module
    tokenizer: Any
    transform: Any
    model_cfg: dict
    preprocess_cfg: dict
    source: str

    @property
    def model(self) -> nn.Module:
        """The open_clip module."""
        return self.clip

    @property
    def image_size(self) -> int:
        """Pixels of the square input's side."""
        size = self.clip.visual.image_size
        return size[0] if isinstance(size, (tuple, list)) else size

    def tokenize(self, texts: list[str]) -> Tensor:
        """Token ids [B, context_length]; longer texts are cut and keep their end token."""
        return self.tokenizer(texts)

    def positions(self, text: str) -> int:
        """How many tokens a text has without start and end."""
        return len(self.tokenizer.encode(text))

    def save(self, folder: str | Path) -> None:
        """Write weights and config so that plain open_clip loads them (`local-dir:<folder>`)."""
        folder = Path(folder)
        state = {name: tensor.contiguous() for name, tensor in self.clip.state_dict().items()}
        write_atomic(folder / WEIGHTS, save(state))
        write_json(folder / CONFIG, {"model_cfg": self.model_cfg, "preprocess_cfg": self.preprocess_cfg})

    def add_bias(self, value: float) -> None:
        """Give a softmax model the learnt bias of a sigmoid loss; a model that has one keeps it."""
        if self.clip.logit_bias is None:
            self.clip.logit_bias = nn.Parameter(torch.tensor(float(value)))
            self.model_cfg["init_logit_bias"] = float(value)


def create(model: str, weights: str = "", seed: int = 0, device: str = "cpu") -> Model:
    """A model by open_clip name or config file, with hub weights by tag, local weights by path, or random ones.

    Raises UserError for an unknown name, missing or foreign weights, and what a hub would have to be asked for.
    """
    name = _register(model)
    if _is_folder(weights):
        loaded = load(weights, device=device)
        _same_architecture(loaded, name, weights)
        return loaded
    torch.manual_seed(seed)
    hub = weights if weights and not Path(weights).suffix else ""
    clip = _create(name, hub, device)
    if weights and not hub:
        _load_state(clip, Path(weights))
    return _wrap(clip, name, open_clip.get_model_config(name), f"{model}::{weights or 'random'}")


def load(ref: str | Path, model: str = "", device: str = "cpu") -> Model:
    """A checkpoint: a folder in open_clip's format, a weights file with `model` given, or `NAME::TAG` from a hub."""
    ref = str(ref)
    if _is_folder(ref):
        return _load_folder(Path(ref), device)
    if "::" in ref:
        name, _, tag = ref.partition("::")
        return create(name, tag, device=device)
    if not Path(ref).exists():
        raise UserError(f"checkpoint {ref!r}: no such file or folder; give one with {CONFIG}, a file, or NAME::TAG")
    if not model:
        raise UserError(f"checkpoint {ref!r}: weights without {CONFIG}; give the architecture with --model NAME")
    return create(model, ref, device=device)


def _is_folder(ref: str) -> bool:
    return bool(ref) and (Path(ref) / CONFIG).is_file()


def _load_folder(folder: Path, device: str) -> Model:
    config = read_json(folder / CONFIG)
    if "model_cfg" not in config:
        raise UserError(f"{folder / CONFIG}: no key 'model_cfg'; not an open_clip config")
    clip = _build(config["model_cfg"], str(folder), device)
    _load_state(clip, folder / WEIGHTS)
    return _wrap(clip, f"local-dir:{folder}", config["model_cfg"], str(folder), config.get("preprocess_cfg", {}))


def _build(model_cfg: dict, where: str, device: str) -> nn.Module:
    """The module of a config alone, random weights."""
    cfg = dict(model_cfg)
    kind = open_clip.CustomTextCLIP if cfg.pop("custom_text", False) else open_clip.CLIP
    try:
        return kind(**cfg).to(device)
    except (TypeError, KeyError, RuntimeError) as error:
        raise UserError(f"{where}: the config does not describe an open_clip model: {error}") from error


def _register(model: str) -> str:
    """An open_clip name; a path to a JSON config is registered under its stem first."""
    if model.endswith(".json"):
        read_json(model)
        open_clip.add_model_config(Path(model))
        return Path(model).stem
    if model not in open_clip.list_models():
        raise unknown("model", model, open_clip.list_models(), "backbones")
    return model


def _create(name: str, tag: str, device: str) -> nn.Module:
    tags = open_clip.list_pretrained_tags_by_model(name)
    if tag and tag not in tags:
        raise unknown("weights", tag, tags, f"model {name}")
    if tag == "openai" and not name.endswith("-quickgelu"):
        raise UserError(f"model {name} with weights 'openai': trained with QuickGELU; use {name}-quickgelu")
    if not tag:
        return _build(open_clip.get_model_config(name), name, device)
    try:
        return open_clip.create_model(name, pretrained=tag, device=device)
    except (OSError, RuntimeError, ConnectionError) as error:
        raise UserError(f"{name}::{tag}: cannot fetch the weights ({type(error).__name__}); "
                        "download the file and give its path as weights") from error


def _wrap(clip: nn.Module, name: str, model_cfg: dict, source: str, preprocess: dict | None = None) -> Model:
    cfg = open_clip.transform.merge_preprocess_dict(
        open_clip.transform.PreprocessCfg(size=clip.visual.image_size), preprocess or {})
    clip.visual.preprocess_cfg = cfg
    transform = open_clip.transform.image_transform_v2(open_clip.transform.PreprocessCfg(**cfg), is_train=False)
    return Model(clip, _tokenizer(name, model_cfg), transform, dict(model_cfg), _plain(cfg), source)


def _plain(cfg: dict) -> dict:
    return json.loads(json.dumps(cfg))


def _tokenizer(name: str, model_cfg: dict) -> Any:
    text = model_cfg.get("text_cfg", {})
    if not text.get("hf_tokenizer_name"):
        return open_clip.SimpleTokenizer(context_length=text.get("context_length", 77))
    try:
        return open_clip.get_tokenizer(name)
    except OSError as error:
        raise UserError(f"model {name}: its tokenizer {text['hf_tokenizer_name']!r} is not at hand; download that "
                        "repository and give its folder as backbones.<name>.tokenizer") from error


def _load_state(clip: nn.Module, path: Path) -> None:
    """Load weights strictly; a foreign architecture or a broken file is a UserError."""
    try:
        state = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such weights file; give an existing one") from error
    except Exception as error:  # pickle, zip and safetensors errors share no base
        raise UserError(f"{path}: not a readable weights file ({type(error).__name__}); fetch it again") from error
    state = _unwrapped(state)
    own = clip.state_dict()
    wrong = sorted(set(own) ^ set(state)) or sorted(k for k in own if own[k].shape != state[k].shape)
    if wrong:
        raise UserError(f"{path}: a checkpoint of another architecture: {len(wrong)} tensors differ, as {wrong[0]!r}; "
                        "give the model it was trained with")
    clip.load_state_dict(state)


def _unwrapped(state: dict) -> dict:
    state = state.get("state_dict", state)
    prefix = "module." if all(k.startswith("module.") for k in state) else ""
    return {k.removeprefix(prefix): v.float() if v.is_floating_point() else v for k, v in state.items()}


def _same_architecture(loaded: Model, name: str, weights: str) -> None:
    wanted = open_clip.get_model_config(name)
    keys = ("embed_dim", "vision_cfg", "text_cfg")
    differs = [k for k in keys if loaded.model_cfg.get(k) != wanted.get(k)]
    if loaded.model_cfg.get("quick_gelu", False) != wanted.get("quick_gelu", False):
        differs.append("quick_gelu")
    if differs:
        raise UserError(f"{weights}: a checkpoint of another architecture than {name}: {', '.join(differs)} differ")


def weights_fingerprint(ref: str | Path) -> str:
    """SHA-256 of a checkpoint folder or file."""
    return fingerprint(ref)

"""open_clip models: made by name and weights, read from and written to open_clip's own files.

B images or texts, N patches, T text positions, W width, D joint dim.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from compclip.base.errors import UserError, one_line, unknown
from compclip.base.files import fingerprint, read_json, write_json
from compclip.base.lazy import open_clip
from compclip.model import tokenizers
from compclip.model import weights as weights_files
from compclip.model.weights import CONFIG

if TYPE_CHECKING:
    from PIL.Image import Image

if TYPE_CHECKING:
    from compclip.config.sections import Backbone

WEIGHTS = weights_files.NAMES[0]
SCHEMES = ("hf-hub:", "local-dir:")
RANDOM = "random"
SHIPPED = ".fp16.safetensors"  # half-precision weights that are part of a project


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

    @property
    def starts(self) -> int:
        """How many tokens stand before a text's own: 1 for CLIP, 0 for SigLIP."""
        return self.tokenizer.layout.starts

    def fitted(self, picture: Image) -> Image:
        """The picture as `transform` cuts and scales it; one that fits already is left alone."""
        size = self.preprocess_cfg["size"]
        height, width = (size, size) if isinstance(size, int) else size
        if picture.mode == "RGB" and picture.size == (width, height):
            return picture
        for step in self.transform.transforms[:-2]:
            picture = step(picture)
        return picture

    def pixels(self, pictures: Sequence[Image]) -> Tensor:
        """What `transform` makes of some pictures, to the bit, as one tensor [B, 3, H, W]."""
        values_BHW3 = torch.from_numpy(np.stack([np.asarray(self.fitted(picture)) for picture in pictures]))
        mean, std = (torch.tensor(self.preprocess_cfg[k])[:, None, None] for k in ("mean", "std"))
        values_B3HW = values_BHW3.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
        return values_B3HW.div_(255).sub_(mean).div_(std)

    def tokenize(self, texts: list[str]) -> Tensor:
        """Token ids [B, context_length]; longer texts are cut and keep their end token."""
        return self.tokenizer(texts)

    def positions(self, text: str) -> int:
        """How many tokens a text has without start and end."""
        return self.tokenizer.count(text)

    def save(self, folder: str | Path) -> None:
        """Write weights and config so that plain open_clip loads them (`local-dir:<folder>`)."""
        folder = Path(folder)
        weights_files.write(folder / WEIGHTS, self.clip.state_dict(), self.model_cfg)
        self.tokenizer.save(folder)
        record = {"tokenizer": self.tokenizer.record} if self.tokenizer.record else {}
        write_json(folder / CONFIG, {"model_cfg": self.model_cfg, "preprocess_cfg": self.preprocess_cfg, **record})

    def add_bias(self, value: float) -> None:
        """Give a softmax model the learnt bias of a sigmoid loss; a model that has one keeps it."""
        if self.clip.logit_bias is None:
            device = self.clip.logit_scale.device
            self.clip.logit_bias = nn.Parameter(torch.tensor(float(value), device=device))
            self.model_cfg["init_logit_bias"] = float(value)
            self.clip.bias_added = True  # by this run: no part of a backbone that an adapter freezes


def check(device: str, activation: str = "") -> None:
    """Raise UserError for a device that this machine does not compute on, or an unknown activation."""
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:  # torch has no one error for it
        why = one_line(str(error)).partition(". ")[0][:160]
        raise UserError(f"device {device!r}: {why}; give cpu, or cuda with a GPU") from error
    weights_files.check_stated(activation)


def create(
    model: str, weights: str = "", seed: int = 0, device: str = "cpu", tokenizer: str = "", activation: str = ""
) -> Model:
    """A model by open_clip name or config file, with hub weights by tag, local weights by path, or random ones.

    Names `hf-hub:REPOSITORY` and `local-dir:FOLDER` bring their own weights. `tokenizer` is a folder, or `clip` for a
    stand-in; `activation` says what weights were trained with that do not tell it themselves. Raises UserError for an
    unknown name, missing or foreign weights, and what a hub would have to be asked for.
    """
    if model.startswith(SCHEMES):
        if weights:
            raise UserError(f"model {model}: brings its own weights; remove weights={weights}")
        return load(model, device=device, tokenizer=tokenizer)
    name = _register(model)
    if _is_folder(weights):
        loaded = load(weights, device=device, tokenizer=tokenizer, activation=activation)
        _same_architecture(loaded, name, weights)
        return loaded
    cfg = open_clip.get_model_config(name)
    coder = tokenizers.of(name, cfg, tokenizer)
    torch.manual_seed(seed)
    made = _from_file(name, cfg, Path(weights), activation) if _is_path(weights) else _from_tag(name, cfg, weights)
    clip, preprocess = made
    return _wrap(clip.to(device), cfg, f"{model}::{weights or RANDOM}", preprocess, coder)


def load(ref: str | Path, model: str = "", device: str = "cpu", tokenizer: str = "", activation: str = "") -> Model:
    """A checkpoint: a folder in open_clip's format, a weights file with `model` given, or `NAME::TAG` from a hub."""
    ref = str(ref).removeprefix("local-dir:")
    if ref.startswith("hf-hub:"):
        ref = str(weights_files.fetch_repository(ref.removeprefix("hf-hub:")))
    if _is_folder(ref):
        return _load_folder(Path(ref), device, tokenizer, activation)
    if "::" in ref:
        name, _, tag = ref.partition("::")
        return create(name, tag, device=device, tokenizer=tokenizer)
    if not Path(ref).exists():
        raise UserError(f"checkpoint {ref!r}: no such file or folder; give one with {CONFIG}, a file, or NAME::TAG")
    if not model:
        raise UserError(f"checkpoint {ref!r}: weights without {CONFIG}; give the architecture with --model NAME")
    return create(model, ref, device=device, tokenizer=tokenizer, activation=activation)


def _is_folder(ref: str) -> bool:
    return bool(ref) and (Path(ref) / CONFIG).is_file()


def _is_path(weights: str) -> bool:
    """Whether weights are named by a path and not by a hub's tag."""
    return bool(weights) and (Path(weights).exists() or bool(Path(weights).suffix) or "/" in weights)


def _load_folder(folder: Path, device: str, tokenizer: str, activation: str = "") -> Model:
    config = read_json(folder / CONFIG)
    if "model_cfg" not in config:
        raise UserError(f"{folder / CONFIG}: no key 'model_cfg'; not an open_clip config")
    file = weights_files.in_folder(folder)
    weights_files.check_activation(file, f"of {CONFIG}", config["model_cfg"], activation)
    coder = tokenizers.of(str(folder), config["model_cfg"], tokenizer or config.get("tokenizer", ""), folder)
    clip = _build(config["model_cfg"], str(folder)).to(device)
    _load_state(clip, weights_files.read(file), file)
    return _wrap(clip, config["model_cfg"], str(folder), config.get("preprocess_cfg", {}), coder)


def _build(model_cfg: dict, where: str) -> nn.Module:
    """The module of a config alone, random weights."""
    cfg = dict(model_cfg)
    kind = open_clip.CustomTextCLIP if cfg.pop("custom_text", False) else open_clip.CLIP
    try:
        return kind(**cfg)
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


def _from_file(name: str, cfg: dict, file: Path, activation: str) -> tuple[nn.Module, dict]:
    if file.is_dir():
        raise UserError(f"weights {file}: a folder without {CONFIG}; put it there, or give the weights file")
    state = weights_files.read(file)
    if "logit_bias" in state and cfg.get("init_logit_bias") is None:  # tuned with a sigmoid loss
        cfg["init_logit_bias"] = state["logit_bias"].item()
    clip = _build(cfg, name)
    _load_state(clip, state, file)
    weights_files.check_activation(file, name, cfg, activation)
    return clip, weights_files.usual_preprocessing(name)


def _from_tag(name: str, cfg: dict, tag: str) -> tuple[nn.Module, dict]:
    """Hub weights, or random ones without a tag."""
    if tag in ("", RANDOM):
        return _build(cfg, name), weights_files.usual_preprocessing(name)
    preprocess = weights_files.fetch_tag(name, tag, cfg)
    try:
        return open_clip.create_model(name, pretrained=tag), preprocess
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"{name}::{tag}: the cached weights cannot be loaded: {one_line(str(error))[:160]}; "
            "remove them from the cache and fetch them again"
        ) from error


def _wrap(clip: nn.Module, model_cfg: dict, source: str, preprocess: dict, coder: Any) -> Model:
    cfg = open_clip.transform.merge_preprocess_dict(
        open_clip.transform.PreprocessCfg(size=clip.visual.image_size), preprocess
    )
    clip.visual.preprocess_cfg = cfg
    transform = open_clip.transform.image_transform_v2(open_clip.transform.PreprocessCfg(**cfg), is_train=False)
    clip.layout = coder.layout
    return Model(clip, coder, transform, dict(model_cfg), _plain(cfg), source)


def _plain(cfg: dict) -> dict:
    return json.loads(json.dumps(cfg))


def _load_state(clip: nn.Module, state: dict[str, Tensor], path: Path) -> None:
    """Load weights strictly; those of another architecture are a UserError."""
    own = clip.state_dict()
    for name in ("logit_scale", "logit_bias"):  # some files have them as vectors of one
        if name in state and name in own and state[name].numel() == 1:
            state[name] = state[name].reshape(own[name].shape)
    wrong = sorted(set(own) ^ set(state)) or sorted(k for k in own if own[k].shape != state[k].shape)
    if wrong:
        raise UserError(
            f"{path}: a checkpoint of another architecture: {len(wrong)} tensors differ, as {wrong[0]!r}; "
            "give the model it was trained with"
        )
    clip.load_state_dict(state)


def _same_architecture(loaded: Model, name: str, weights: str) -> None:
    wanted = open_clip.get_model_config(name)
    keys = ("embed_dim", "vision_cfg", "text_cfg")
    differs = [k for k in keys if _tower(loaded.model_cfg.get(k)) != _tower(wanted.get(k))]
    if loaded.model_cfg.get("quick_gelu", False) != wanted.get("quick_gelu", False):
        differs.append("quick_gelu")
    if differs:
        raise UserError(f"{weights}: a checkpoint of another architecture than {name}: {', '.join(differs)} differ")


def _tower(cfg: Any) -> Any:
    """A tower's config without what says where its parts came from."""
    origins = ("timm_model_pretrained", "hf_model_pretrained", "hf_tokenizer_name")
    return {k: v for k, v in cfg.items() if k not in origins} if isinstance(cfg, dict) else cfg


def weights_fingerprint(ref: str | Path) -> str:
    """SHA-256 of a checkpoint folder or file."""
    return fingerprint(ref)


def unpack(model: Model, path: Path) -> None:
    """Load shipped half-precision weights into a float32 model. Raises UserError where they are missing."""
    if not path.is_file():
        raise UserError(f"{path}: no shipped weights; make them with `python -m compclip pretrain`")
    model.clip.load_state_dict({k: v.float() for k, v in load_file(path).items()})


def fetched(spec: Backbone, seed: int) -> Model:
    """A backbone of params.yaml with its weights; random ones are drawn from `seed`.

    Raises UserError for weights that are not there.
    """
    shipped = spec.weights.endswith(SHIPPED)
    made = create(
        spec.model, "" if shipped else spec.weights, seed, tokenizer=spec.tokenizer, activation=spec.activation
    )
    if shipped:
        unpack(made, Path(spec.weights))
    return made

"""open_clip models: made by name and weights, read from and written to open_clip's own files.

B images or texts, N patches, T text positions, W width, D joint dim.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from compclip.base.errors import UserError, one_line, unknown
from compclip.base.files import fingerprint, read_json, write_json
from compclip.base.lazy import open_clip
from compclip.model import architecture, borrowed, hub, tokenizers, transformers_folder
from compclip.model import weights as weights_files
from compclip.model.weights import CONFIG

if TYPE_CHECKING:
    from PIL.Image import Image

    from compclip.config.sections import Backbone

WEIGHTS = weights_files.NAMES[0]
SCHEMES, RANDOM = architecture.SCHEMES, architecture.RANDOM
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

    def pixels(self, pictures: Sequence[Image], statistics: Mapping[str, Sequence[float]] | None = None) -> Tensor:
        """What `transform` makes of some pictures, to the bit, as one tensor [B, 3, H, W].

        `statistics`: another `mean` and `std` than the model's own.
        """
        values_BHW3 = torch.from_numpy(np.stack([np.asarray(self.fitted(picture)) for picture in pictures]))
        mean, std = (torch.tensor((statistics or self.preprocess_cfg)[k])[:, None, None] for k in ("mean", "std"))
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
    model: str,
    weights: str = "",
    seed: int = 0,
    device: str = "cpu",
    tokenizer: str = "",
    activation: str = "",
    tells: bool = False,
    alpha: float = 1.0,
) -> Model:
    """A model by open_clip name or config file, with hub weights by tag, local weights by path, or random ones.

    Names `hf-hub:REPOSITORY` and `local-dir:FOLDER` bring their own weights. `tokenizer` is a folder, or `clip` for a
    stand-in; `activation` says what weights were trained with that do not tell it themselves; `tells` asks for a model
    that writes captions (CoCa), which is no backbone; `alpha` is that of a file's adapters. Raises UserError for an
    unknown name, missing or foreign weights, and what a hub would have to be asked for.
    """
    if model.startswith(SCHEMES):
        if weights:
            raise UserError(f"model {model}: brings its own weights; remove weights={weights}")
        return load(model, device=device, tokenizer=tokenizer, tells=tells)
    name = _register(model)
    if _is_folder(weights):
        loaded = load(weights, device=device, tokenizer=tokenizer, activation=activation, tells=tells)
        _same_architecture(loaded, name, weights)
        return loaded
    cfg = open_clip.get_model_config(name)
    _check_kind(cfg, f"model {model}", tells)
    state = _read(Path(weights), cfg, alpha) if _is_path(weights) else None
    coder = tokenizers.of(name, cfg, tokenizer)
    torch.manual_seed(seed)
    made = _from_tag(name, cfg, weights) if state is None else _from_file(name, cfg, Path(weights), activation, state)
    clip, preprocess = made
    return _wrap(clip.to(device), cfg, f"{model}::{weights or RANDOM}", preprocess, coder)


def load(
    ref: str | Path,
    model: str = "",
    device: str = "cpu",
    tokenizer: str = "",
    activation: str = "",
    tells: bool = False,
    alpha: float = 1.0,
) -> Model:
    """A checkpoint: a folder in open_clip's format, `NAME::TAG` of a hub, or, with `model`, another's weights."""
    ref = str(ref).removeprefix("local-dir:")
    if ref == "hf-hub:":
        raise UserError("checkpoint 'hf-hub:': names no repository; give hf-hub:OWNER/NAME")
    if ref.startswith("hf-hub:"):
        ref = str(weights_files.fetch_repository(ref.removeprefix("hf-hub:")))
    if _is_folder(ref):
        return _load_folder(Path(ref), device, tokenizer, activation, tells)
    if "::" in ref:
        return create(*_named(ref), device=device, tokenizer=tokenizer, tells=tells)
    if not Path(ref).exists():
        raise UserError(f"checkpoint {ref!r}: no such file or folder; give one with {CONFIG}, a file, or NAME::TAG")
    if not model:
        raise UserError(f"checkpoint {ref!r}: weights without {CONFIG}; give the architecture with --model NAME")
    return create(model, ref, 0, device, tokenizer, activation, tells, alpha)


def _named(ref: str) -> tuple[str, str]:
    name, _, tag = ref.partition("::")
    if not tag:
        tags = open_clip.list_pretrained_tags_by_model(name)
        raise UserError(f"checkpoint {ref!r}: no weights after '::'; give one of {', '.join([*tags, RANDOM])}")
    return name, tag


def _is_folder(ref: str) -> bool:
    return bool(ref) and (Path(ref) / CONFIG).is_file()


def _is_path(weights: str) -> bool:
    """Whether weights are named by a path and not by a hub's tag."""
    return bool(weights) and (Path(weights).exists() or bool(Path(weights).suffix) or "/" in weights)


def _load_folder(folder: Path, device: str, tokenizer: str, activation: str, tells: bool) -> Model:
    config = architecture.read(folder / CONFIG)
    model_cfg, preprocess = config["model_cfg"], config.get("preprocess_cfg") or {}
    _check_kind(model_cfg, str(folder), tells)
    file = weights_files.in_folder(folder)
    weights_files.check_activation(file, f"of {CONFIG}", model_cfg, activation)
    coder = tokenizers.of(str(folder), model_cfg, tokenizer or config.get("tokenizer", ""), folder)
    clip = _filled(model_cfg, str(folder), file, weights_files.read(file)).to(device)
    return _wrap(clip, model_cfg, str(folder), preprocess, coder)


def _check_kind(model_cfg: dict, where: str, tells: bool) -> None:
    """Raise UserError for a captioner in a backbone's place, or the other way round."""
    if tells and architecture.TELLS not in model_cfg:
        raise UserError(f"{where}: has no {architecture.TELLS}, and so writes no captions; give a CoCa model")
    if not tells and architecture.TELLS in model_cfg:
        raise UserError(f"{where}: a CoCa model is no backbone; as a captioner of data it can be had: captioner: coca")


def _filled(model_cfg: dict, where: str, file: Path, state: dict[str, Tensor]) -> nn.Module:
    """The module of a config with the weights of a file, which it must not outgrow."""
    clip = _build(_without_origins(model_cfg), where, file, sum(t.numel() for t in state.values()))
    weights_files.fill(clip, state, file)
    return clip


def _without_origins(model_cfg: dict) -> dict:
    """A config whose towers are not filled from a hub first."""
    towers = {"vision_cfg": "timm_model", "text_cfg": "hf_model"}
    filled = {t: {f"{whose}_pretrained": False} for t, whose in towers.items() if model_cfg[t].get(f"{whose}_name")}
    return model_cfg | {tower: model_cfg[tower] | none for tower, none in filled.items()}


def _build(model_cfg: dict, where: str, file: Path | None = None, held: int = 0) -> nn.Module:
    """The module of a config alone, random weights; those that a file holds are to fill it."""
    _check_room(architecture.least_weights(model_cfg), where, file, held)
    cfg, tower = dict(model_cfg), model_cfg["text_cfg"].get("hf_model_name")
    kind = open_clip.CustomTextCLIP if cfg.pop("custom_text", False) or tower else open_clip.CLIP
    kind = open_clip.CoCa if architecture.TELLS in cfg else kind
    try:
        borrowed.load_packages(cfg)
        with hub.asked() if tower else contextlib.nullcontext():
            if tower:
                borrowed.check_text_tower(tower, where)
            elif model_cfg["vision_cfg"].get("timm_model_name"):
                _check_room(_rehearsed(kind, cfg, where), where, file, held)
            return kind(**cfg)
    except UserError:
        raise
    except Exception as error:  # open_clip asserts, and what it builds on raises errors of every kind
        why = one_line(str(error))[:160] or type(error).__name__
        raise UserError(f"{where}: the config does not describe an open_clip model: {why}; mend it") from error


def _rehearsed(kind: Any, cfg: dict, where: str) -> int:
    """How many weights a model has whose image tower is timm's: it is built and run where tensors are shapes alone.

    What timm's models take and give only they know.
    """
    origin = {"timm_model_pretrained": False}
    with torch.random.fork_rng([]), torch.device("meta"), torch.no_grad():
        clip = kind(**cfg | {"vision_cfg": cfg["vision_cfg"] | origin}).eval()
        try:
            vector_1D = clip.visual(torch.zeros(1, 3, *architecture.pair(clip.visual.image_size)))
        except NotImplementedError:  # an operation that looks at values
            return architecture.least_weights(cfg)
    if vector_1D.shape != (1, cfg["embed_dim"]):
        raise UserError(f"{where}: embed_dim={cfg['embed_dim']}: its timm model gives {list(vector_1D.shape[1:])}")
    return sum(t.numel() for t in clip.state_dict().values())


def _check_room(count: int, where: str, file: Path | None, held: int) -> None:
    """Raise UserError for a model of more weights than its file holds, or than this machine does."""
    if file and count > held:
        raise UserError(
            f"{file}: a checkpoint of another architecture: holds {held} weights, and {where} describes {count} "
            "at least; give the model it was trained with"
        )
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if 4 * count > there:
        raise UserError(
            f"{where}: the config describes a model of {4 * count >> 30} GiB at least, and this machine has "
            f"{there >> 30} GiB; give a smaller one"
        )


def _register(model: str) -> str:
    """An open_clip name; a path to a JSON config is registered under its stem first."""
    if model.endswith(".json"):
        architecture.check(read_json(model), model)
        open_clip.add_model_config(Path(model))
        return Path(model).stem
    if model not in open_clip.list_models():
        raise unknown("model", model, open_clip.list_models(), "backbones")
    return model


def _read(file: Path, cfg: dict, alpha: float) -> dict[str, Tensor]:
    """The weights at a path; `cfg` is given what they say of it."""
    if file.is_dir() and not transformers_folder.holds(file):
        raise UserError(f"weights {file}: a folder without {CONFIG}; put it there, or give the weights file")
    state = weights_files.read(file, alpha)
    architecture.adapt(cfg, state)
    return state


def _from_file(name: str, cfg: dict, file: Path, activation: str, state: dict[str, Tensor]) -> tuple[nn.Module, dict]:
    clip = _filled(cfg, name, file, state)
    weights_files.check_activation(file, name, cfg, activation)
    return clip, weights_files.usual_preprocessing(name)


def _from_tag(name: str, cfg: dict, tag: str) -> tuple[nn.Module, dict]:
    """Hub weights, or random ones without a tag."""
    if tag in ("", RANDOM):
        return _build(cfg, name), weights_files.usual_preprocessing(name)
    preprocess = weights_files.fetch_tag(name, tag, cfg)
    borrowed.load_packages(cfg)
    try:
        return open_clip.create_model(name, pretrained=tag), preprocess
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"{name}::{tag}: the cached weights cannot be loaded: {one_line(str(error))[:160]}; "
            "remove them from the cache and fetch them again"
        ) from error


def _wrap(clip: nn.Module, model_cfg: dict, source: str, preprocess: dict, coder: Any) -> Model:
    _check_size(clip.visual, preprocess.get("size"), source)
    cfg = open_clip.transform.merge_preprocess_dict(
        open_clip.transform.PreprocessCfg(size=clip.visual.image_size), preprocess
    )
    clip.visual.preprocess_cfg = cfg
    transform = open_clip.transform.image_transform_v2(open_clip.transform.PreprocessCfg(**cfg), is_train=False)
    clip.layout = coder.layout
    return Model(clip, coder, transform, dict(model_cfg), _plain(cfg), source)


def _check_size(visual: nn.Module, size: Any, source: str) -> None:
    """Raise UserError where pictures are prepared in another size than the tower takes."""
    declared = architecture.pair(visual.image_size)
    if size and architecture.pair(size) != declared:
        raise UserError(f"{source}: preprocess_cfg.size={size}: the model takes {declared}; remove it")


def _plain(cfg: dict) -> dict:
    return json.loads(json.dumps(cfg))


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


def known(ref: str) -> str:
    """What tells a checkpoint from others: of a folder or file its contents; a hub's name and tag stand for themselves.

    Raises UserError for a folder that is no checkpoint, which may be a whole disk, and for a pipe, which may never end.
    """
    if not Path(ref).exists():
        return ref
    if not (_is_folder(ref) or transformers_folder.holds(Path(ref)) or Path(ref).is_file()):
        raise UserError(f"checkpoint {ref!r}: no weights file, and no folder with {CONFIG}; give one, or NAME::TAG")
    return weights_fingerprint(ref)


def unpack(model: Model, path: Path) -> None:
    """Load shipped half-precision weights into a float32 model. Raises UserError where they are missing."""
    if not path.is_file():
        raise UserError(f"{path}: no shipped weights; make them with `python -m compclip pretrain`")
    weights_files.fill(model.clip, weights_files.read(path), path)


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

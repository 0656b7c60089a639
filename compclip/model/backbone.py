"""Backbones and checkpoints from anywhere: by open_clip's name, a hub's tag, a folder or a file of others.

What comes from elsewhere is checked here; training reads the folders that come of it by `clip_model.load_folder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import open_clip
import torch
from huggingface_hub import HfApi, constants, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError
from torch import Tensor

from compclip.base.errors import UserError, report_failure, unknown
from compclip.base.files import fingerprint, hash_unchanged, read_json
from compclip.model import (
    author_layouts,
    class_tokens,
    clip_model,
    heads,
    hub_cache,
    model_config,
    rotary_text,
    run_weights,
    tokenizers,
    transformers_files,
    weight_files,
)
from compclip.model.author_layouts import AuthorsModel
from compclip.model.clip_model import CONFIG, DECODER, ClipModel, ClipModule
from compclip.model.model_config import RANDOM, SCHEMES, SHIPPED

if TYPE_CHECKING:
    from compclip.config.sections import Backbone


RESIZE = "resize"  # of `preprocess_cfg`: the shorter side before the crop, an option that open_clip lacks
ABSENT = f"no such file or folder; give one with {CONFIG}, a file, or NAME::TAG"


def check_device(device: str, activation: str = "") -> None:
    """Raise UserError for a device that this machine does not compute on, or an unknown activation."""
    kinds = (RuntimeError, AssertionError, ImportError)  # torch has no one error for it
    with report_failure(f"device {device!r}", "give cpu, or cuda with a GPU", *kinds):
        torch.zeros(1, device=device).item()
    weight_files.check_activation_name(activation)


def create(
    model: str,
    weights: str = "",
    seed: int = 0,
    device: str = "cpu",
    tokenizer: str = "",
    activation: str = "",
    captioner: bool = False,
    alpha: float = 1.0,
    choice: str = "",
) -> ClipModel:
    """Create a model by open_clip's name or a config file, with weights by a hub's tag, by path, or random.

    Names `hf-hub:REPOSITORY` and `local-dir:FOLDER` bring their own weights. `tokenizer`: a folder, or `clip` for a
    stand-in. `activation`: what weights were trained with whose file does not say. `captioner`: the model must
    write captions (CoCa), which a backbone must not. `alpha`: of adapters inside a file. `choice`: which model of a
    file that has several, as `model_weights.select_model` takes it. Raises UserError for an unknown name, weights that
    are missing or fit another model, and a hub that does not answer.
    """
    if model.startswith(SCHEMES):
        if weights:
            raise UserError(f"model {model}: brings its own weights; remove weights={weights}")
        return load(model, device=device, tokenizer=tokenizer, captioner=captioner)
    name = _register_model(model)
    if _is_folder(weights):
        loaded = load(weights, device=device, tokenizer=tokenizer, activation=activation, captioner=captioner)
        _check_same_architecture(loaded, name, weights)
        return loaded
    cfg = open_clip.get_model_config(name)
    check_kind(cfg, f"model {model}", captioner)
    torch.manual_seed(seed)
    head = None
    resized = ""
    if weights and (Path(weights).exists() or Path(weights).suffix or "/" in weights):  # no hub's tag
        clip, coder, theirs = _load_file(name, cfg, Path(weights), tokenizer, activation, alpha, choice)
        preprocess = weight_files.default_preprocessing(name) | theirs.preprocess_cfg
        head = theirs.head
        resized = weight_files.describe_resizing(clip, theirs.state)
    else:
        coder = _load_tokenizer(name, cfg, tokenizer)
        clip, preprocess = _load_tag(name, cfg, weights)
    loaded = _assemble_checked(clip.to(device), cfg, f"{model}::{weights or RANDOM}", preprocess, coder)
    return replace(loaded, head=head and head.to(device), resized=resized)


def load(
    ref: str | Path,
    model: str = "",
    device: str = "cpu",
    tokenizer: str = "",
    activation: str = "",
    captioner: bool = False,
    alpha: float = 1.0,
    choice: str = "",
) -> ClipModel:
    """Load a checkpoint: a folder in open_clip's format, `NAME::TAG` of a hub, or weights of the architecture `model`.

    Raises UserError as `create`.
    """
    ref = str(ref).removeprefix("local-dir:")
    if ref == "hf-hub:":
        raise UserError("checkpoint 'hf-hub:': names no repository; give hf-hub:OWNER/NAME")
    if ref.startswith("hf-hub:"):
        ref = str(fetch_with_head(ref.removeprefix("hf-hub:")))
    if _is_folder(ref):
        return _load_folder(Path(ref), device, tokenizer, activation, captioner)
    if "::" in ref:
        name, _, tag = ref.partition("::")
        if not tag:
            tags = [*open_clip.list_pretrained_tags_by_model(name), RANDOM]
            raise UserError(f"checkpoint {ref!r}: no weights after '::'; give one of {', '.join(tags)}")
        return create(name, tag, device=device, tokenizer=tokenizer, captioner=captioner)
    if model and Path(ref).exists():
        return create(model, ref, 0, device, tokenizer, activation, captioner, alpha, choice)
    nameless = f"weights without {CONFIG}; give the architecture with --model NAME"
    raise UserError(f"checkpoint {ref!r}: {nameless if Path(ref).exists() else ABSENT}")


def load_backbone(spec: Backbone, seed: int) -> ClipModel:
    """Return a backbone of params.yaml with its weights; random ones are drawn from `seed`.

    Raises UserError for weights that are missing.
    """
    shipped = spec.weights.endswith(SHIPPED)
    weights = "" if shipped else spec.weights
    model = create(spec.model, weights, seed, tokenizer=spec.tokenizer, activation=spec.activation)
    fault = ""
    if model.head is not None:
        fault = f"has a head ({model.head.kind}), which training would lose; {heads.ADVICE}"
    elif model.model_cfg["text_cfg"].get(rotary_text.OPTION):
        fault = "has rotary positions, with which training does not begin; score it as `released`"
    if fault:
        raise UserError(f"{model.source}: {fault}")
    if shipped:
        path = Path(spec.weights)
        if not path.is_file():
            raise UserError(f"{path}: no shipped weights; make them with `python {model_config.PRETRAIN}`")
        weight_files.fill_weights(model.clip, weight_files.read_weights(path), path)
    return model


def read_architecture(model: str) -> dict[str, Any]:
    """Return the config of a backbone's `model` in params.yaml, in open_clip's format; no weights are read.

    Raises UserError for an unknown name, a wrong config file, and a hub that does not answer.
    """
    if model.startswith(SCHEMES):
        scheme, _, reference = model.partition(":")
        folder = weight_files.fetch_repository(reference, weights=False) if scheme == "hf-hub" else Path(reference)
        return model_config.read_config(folder / CONFIG)["model_cfg"]
    return open_clip.get_model_config(_register_model(model))


def identify_checkpoint(ref: str) -> str:
    """Return what identifies a checkpoint: the hash of a folder or file; a hub's name and tag as they are.

    Raises UserError for what is not there, a folder that is no checkpoint, which may be a whole disk, and a pipe.
    """
    if "::" in ref or ref.startswith("hf-hub:"):
        return ref
    path = Path(ref)
    if _is_folder(ref) or transformers_files.is_folder(path) or path.is_file():
        return fingerprint(ref, read_hash=hash_unchanged)
    foreign = f"no weights file, and no folder with {CONFIG}; give one, or NAME::TAG"
    raise UserError(f"checkpoint {ref!r}: {foreign if path.exists() else ABSENT}")


def _is_folder(ref: str) -> bool:
    return bool(ref) and (Path(ref) / CONFIG).is_file()


def _register_model(model: str) -> str:
    """Return an open_clip name; a path to a JSON config is registered under its stem."""
    if model.endswith(".json"):
        model_config.check_config(read_json(model), model)
        open_clip.add_model_config(Path(model))
        return Path(model).stem
    if model not in open_clip.list_models():
        raise unknown("model", model, open_clip.list_models(), "backbones")
    return model


def check_kind(model_cfg: dict, where: str, captioner: bool) -> None:
    """Raise UserError for a captioner in a backbone's place, or the other way round."""
    fault = f"has no {DECODER}, and so writes no captions; give a CoCa model"
    if DECODER in model_cfg:
        fault = "a CoCa model is no backbone; as a captioner of data it is available: captioner: coca"
    if captioner != (DECODER in model_cfg):
        raise UserError(f"{where}: {fault}")


# --- modules --------------------------------------------------------------------------------------------------


def _load_folder(folder: Path, device: str, tokenizer: str, activation: str, captioner: bool) -> ClipModel:
    run_weights.check_recorded(folder)
    config = model_config.read_config(folder / CONFIG)
    model_cfg = config["model_cfg"]
    preprocess = config.get("preprocess_cfg") or {}
    check_kind(model_cfg, str(folder), captioner)
    file = weight_files.find_weights(folder)
    weight_files.check_activation(file, f"of {CONFIG}", model_cfg, activation)
    coder = _load_tokenizer(str(folder), model_cfg, tokenizer or config.get("tokenizer", ""), folder)
    clip = _build_checked(model_cfg, str(folder), file, weight_files.read_weights(file)).to(device)
    head = heads.load_head(folder, heads.ALL_KINDS)
    if head:
        _check_sizes(head, model_cfg, folder)
    return replace(_assemble_checked(clip, model_cfg, str(folder), preprocess, coder), head=head and head.to(device))


def _check_sizes(head: heads.Head, model_cfg: dict, folder: Path) -> None:
    """Raise UserError for a head of other vectors, or of other class tokens, than its towers give."""
    width = head.options["width"]
    vision_cfg = model_cfg["vision_cfg"]
    if width != model_cfg["embed_dim"]:
        raise UserError(f"{folder}: its head takes vectors of {width}, not {model_cfg['embed_dim']}")
    given = (vision_cfg.get(class_tokens.OPTION, 1), vision_cfg.get("width", 768))
    taken = tuple(head.options.get(name, size) for name, size in zip(("tokens", "token_width"), given, strict=True))
    if taken != given:
        raise UserError(
            f"{folder}: its head takes {taken[0]} class tokens of {taken[1]} numbers, not {given[0]} of {given[1]}"
        )


def _load_file(
    name: str, cfg: dict, file: Path, tokenizer: str, activation: str, alpha: float, choice: str
) -> tuple[ClipModule, Any, AuthorsModel]:
    """Return the module of a config with a file's weights, its tokenizer, and what else the file is.

    `cfg` is completed from the weights.
    """
    if file.is_dir() and not transformers_files.is_folder(file):
        raise UserError(f"weights {file}: a folder without {CONFIG}; put it there, or give the weights file")
    theirs = author_layouts.convert(weight_files.read_weights(file, alpha, choice), file)
    model_config.complete_config(cfg, theirs.state)
    cfg["vision_cfg"] |= theirs.vision_cfg
    cfg["text_cfg"] |= theirs.text_cfg
    coder = _load_tokenizer(name, cfg, tokenizer)
    clip = _build_checked(cfg, name, file, theirs.state)
    weight_files.check_activation(file, name, cfg, activation or theirs.activation)
    return clip, coder, theirs


def _load_tag(name: str, cfg: dict, tag: str) -> tuple[ClipModule, dict]:
    """Return the module with a hub's weights, random ones without a tag, and how its pictures are prepared."""
    if tag in ("", RANDOM):
        return _build_checked(cfg, name), weight_files.default_preprocessing(name)
    preprocess = weight_files.fetch_tag(name, tag, cfg)
    advice = "remove them from the cache and fetch them again"
    with report_failure(f"{name}::{tag}: the cached weights cannot be loaded", advice, OSError, RuntimeError):
        return open_clip.create_model(name, pretrained=tag), preprocess


def _build_checked(
    model_cfg: dict, where: str, file: Path | None = None, state: dict[str, Tensor] | None = None
) -> ClipModule:
    """Build the module of a config with random weights, or with those of a file, which it must not outgrow.

    Raises UserError for one that must not or cannot be built.
    """
    tower = model_cfg["text_cfg"].get("hf_model_name")
    if tower:
        with hub_cache.reachable_or_offline():
            transformers_files.check_text_tower(tower, where)
    model_config.check_size(model_cfg, where, file, sum(t.numel() for t in state.values()) if state else 0)
    clip = rotary_text.build_module(model_cfg)
    if file and state is not None:
        weight_files.fill_weights(clip, state, file)
    return clip


def _assemble_checked(clip: ClipModule, model_cfg: dict, source: str, preprocess: dict, tokenizer: Any) -> ClipModel:
    """Join the parts of a model. Raises UserError for an image transform that does not work."""
    from PIL import Image

    # open_clip asserts, and torchvision raises errors of every kind
    with report_failure(f"{source}: preprocess_cfg: does not prepare a picture", "repair it"):
        model = clip_model.assemble(clip, model_cfg, source, preprocess, tokenizer)
        if preprocess.get(RESIZE) and model.preprocess_cfg["resize_mode"] == "shortest":
            model = _resize_first(model, preprocess[RESIZE])
        pixels_B3HW = model.pixels([Image.new("RGB", (8, 8))])
    if not torch.isfinite(pixels_B3HW).all():
        raise UserError(f"{source}: preprocess_cfg: gives pixels that are no numbers; repair mean and std")
    return model


def _resize_first(model: ClipModel, side: int) -> ClipModel:
    """Scale a picture's shorter side to `side` before the square is cut out; one that has the square's size is kept."""
    from torchvision.transforms import Compose, Resize

    first, *others = model.transform.transforms
    transform = Compose([Resize(side, interpolation=first.interpolation), *others])
    return replace(model, transform=transform, preprocess_cfg=model.preprocess_cfg | {RESIZE: side})


def prepare_otherwise(model: ClipModel, changes: Mapping[str, Any]) -> ClipModel:
    """Return a model that prepares pictures by other options of `preprocess_cfg`. Raises UserError as `load`."""
    preprocess = {**model.preprocess_cfg, **changes}
    changed = _assemble_checked(model.clip, model.model_cfg, model.source, preprocess, model.tokenizer)
    return replace(changed, head=model.head)


def _check_same_architecture(loaded: ClipModel, name: str, weights: str) -> None:
    """Raise UserError where configs differ in more than where their parts came from."""
    ours = _describe_architecture(open_clip.get_model_config(name))
    theirs = _describe_architecture(loaded.model_cfg)
    differs = [key for key in theirs if theirs[key] != ours[key]]
    if differs:
        raise UserError(f"{weights}: a checkpoint of another architecture than {name}: {', '.join(differs)} differ")


def _describe_architecture(model_cfg: dict) -> dict[str, Any]:
    """Return what of a config decides the tensors and what they compute."""
    architecture = {key: dict(model_cfg[key]) for key in ("vision_cfg", "text_cfg")}
    for tower in architecture.values():
        for origin in ("timm_model_pretrained", "hf_model_pretrained", "hf_tokenizer_name"):
            tower.pop(origin, None)
    return {**architecture, "embed_dim": model_cfg["embed_dim"], "quick_gelu": model_cfg.get("quick_gelu", False)}


# --- tokenizers -----------------------------------------------------------------------------------------------


def _load_tokenizer(name: str, model_cfg: dict, choice: str = "", folder: Path | None = None) -> Any:
    """Return a model's tokenizer: `choice` (`clip` the stand-in, or a folder), else `folder`'s, else the model's own.

    Raises UserError naming the files to download, and where to put them, for a tokenizer that is missing.
    """
    text_cfg = model_cfg["text_cfg"]
    repository = text_cfg.get("hf_tokenizer_name")
    if not repository:
        _check_clip_tokenizer(name, text_cfg, choice)
    if not repository or choice == tokenizers.STAND_IN:
        return tokenizers.load_tokenizer(text_cfg, "", choice)
    if choice and not _has_tokenizer(Path(choice)):
        raise UserError(
            f"tokenizer {choice!r}: no folder with {' or '.join(tokenizers.FILES)}; {_tokenizer_advice(repository)}"
        )
    source = choice or (str(folder) if folder and _has_tokenizer(folder) else repository)
    missing = f"is not in {hub_cache.cache_path(repository)} and cannot be fetched"
    fault = missing if source == repository else f"{source} cannot be read"
    with (
        # a damaged file is met by whichever line of transformers reads it
        report_failure(f"model {name}: its tokenizer {fault}", _tokenizer_advice(repository)),
        report_failure(f"model {name}: its tokenizer needs a package", "install it", ImportError),
        hub_cache.reachable_or_offline() if source == repository else nullcontext(),
    ):
        transformers_files.check_tokenizer(source)
        return tokenizers.load_tokenizer(text_cfg, source)


def _check_clip_tokenizer(name: str, text_cfg: dict, choice: str) -> None:
    """Raise UserError for options and sizes that CLIP's own tokenizer does not have."""
    size = text_cfg.get("vocab_size", tokenizers.VOCABULARY)
    if choice not in ("", tokenizers.STAND_IN):
        fault = f"has CLIP's own tokenizer; remove tokenizer={choice}"
    elif text_cfg.get("tokenizer_kwargs") or text_cfg.get("tokenizer_mode"):
        fault = "CLIP's own tokenizer takes no options; remove those of text_cfg"
    elif size < tokenizers.VOCABULARY and not text_cfg.get("hf_model_name"):
        needed = f"CLIP's own tokenizer has {tokenizers.VOCABULARY}"
        fault = f"text_cfg.vocab_size={size}: {needed}; name the model's own as hf_tokenizer_name"
    else:
        return
    raise UserError(f"model {name}: {fault}")


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / file).is_file() for file in tokenizers.FILES)


def _tokenizer_advice(repository: str) -> str:
    return (
        f"download tokenizer.json and tokenizer_config.json of {hub_cache.page_address(repository)} into a folder and "
        f"give it as backbones.<name>.tokenizer; `tokenizer: {tokenizers.STAND_IN}` is a stand-in for random weights"
    )


# --- repositories of a hub ------------------------------------------------------------------------------------------
# Repositories of the hub in open_clip's format, with the head that `compclip publish` may have put there.


def fetch_with_head(repository: str) -> Path:
    """Return the folder of a hub's repository in open_clip's format, with its head where it has one.

    Raises UserError where either cannot be fetched. Where the hub does not answer the cache alone tells of a head.
    """
    fault = f"hf-hub:{repository}: its head cannot be fetched, without which it is another model"
    advice = f"try again, or download {heads.CONFIG} and {heads.WEIGHTS} beside its weights"
    failure = report_failure(fault, advice, EntryNotFoundError, OSError, ValueError, RuntimeError)
    with hub_cache.reachable_or_offline():
        folder = weight_files.fetch_repository(repository)
        with failure:
            if not constants.HF_HUB_OFFLINE and HfApi().file_exists(repository, heads.CONFIG):
                for file in (heads.CONFIG, heads.WEIGHTS):
                    hf_hub_download(repository, file)
    return folder

"""Model configs (JSON) that come from elsewhere: bounded, and tried with shapes alone before a model is built.

open_clip does what a config says: it builds a billion layers, downloads a tower, runs code from a hub. So numbers are
bounded and names are no paths, and the model is first built and run on torch's meta device, which allocates nothing, up
to a bound of weights. Which options there are is open_clip's to say.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.errors import UserError, one_line, report_failure, unknown
from compclip.base.files import read_json

if TYPE_CHECKING:
    from torch import Tensor, nn

# Beyond every model that open_clip has.
LARGEST = 1 << 22  # any number, such as the size of a vocabulary
LIMITS = {"layers": 200, "width": 16384, "image_size": 4096, "size": 4096, "resize": 4096, "patch_size": 4096,
          "context_length": 8192, "class_tokens": 4096}  # fmt: skip
REQUIRED = ("embed_dim", "vision_cfg", "text_cfg")
SECTIONS = ("vision_cfg", "text_cfg", "multimodal_cfg")
SHOWN = 60  # characters of a wrong value
SCHEMES = ("hf-hub:", "local-dir:")  # names of models that bring their own weights
RANDOM = "random"
SHIPPED = ".fp16.safetensors"  # ending of half-precision weights that are part of a project
PRETRAIN = Path("experiments/backbones/pretrain.py")  # makes those that a project lacks
_REPOSITORY = (r"\w[\w.-]{0,95}(/\w[\w.-]{0,95})?", "a hub's repository: OWNER/NAME, no path")
NAMES = {
    "hf_model_name": _REPOSITORY,
    "hf_tokenizer_name": _REPOSITORY,
    "timm_model_name": (r"\w[\w.]{0,95}", "a name of timm's, no path and no hub's"),
}
_WORD = (r"[\w.-]{0,80}", "a word of letters, digits, '.', '-' and '_'")
# Options of open_clip's tokenizer that only change how it cleans a text; others reach transformers, which runs code.
_NO_OPTIONS = {"self", "tokenizer_name", "context_length", "cache_dir", "tokenizer_mode", "trust_remote_code", "kwargs"}


def has_random_weights(model: str, weights: str) -> bool:
    """Return whether a backbone of this model and these weights is drawn at random."""
    return weights in ("", RANDOM) and not model.startswith(SCHEMES)


def read_config(path: str | Path) -> dict:
    """Return the config of a folder in open_clip's format: `model_cfg`, `preprocess_cfg` and `tokenizer`.

    Raises UserError for a file that is no such config, or that has a value out of bounds.
    """
    record = read_json(path)
    if not isinstance(record, dict) or "model_cfg" not in record:
        raise UserError(f"{path}: no key 'model_cfg'; not an open_clip config")
    check_config(record["model_cfg"], f"{path}: model_cfg")
    _refuse_first(iterate_section_faults(record.get("preprocess_cfg") or {}), f"{path}: preprocess_cfg")
    if record.get("tokenizer", "") not in ("", "clip"):
        raise UserError(f'{path}: tokenizer={_shorten(record["tokenizer"])}: must be "" or "clip"')
    return record


def check_config(model_cfg: Any, where: str) -> None:
    """Raise UserError for a `model_cfg` without its sections, or with a value out of bounds."""
    _refuse_first(_iterate_faults(model_cfg), where)


def _refuse_first(faults: Iterator[str], where: str) -> None:
    """Raise UserError for the first of some faults, on whose absence the checks behind it rely."""
    for fault in faults:
        raise UserError(f"{where}: {fault}")


def _iterate_faults(model_cfg: Any) -> Iterator[str]:
    """Yield what is wrong with a `model_cfg`."""
    yield from iterate_section_faults(model_cfg)
    for key in REQUIRED:
        if key not in model_cfg:
            yield f"no key {key!r}; not an open_clip config"
    text_cfg = model_cfg["text_cfg"]
    sections = {key: model_cfg.get(key, {}) for key in SECTIONS}
    if isinstance(text_cfg, dict):
        sections["text_cfg.tokenizer_kwargs"] = text_cfg.get("tokenizer_kwargs") or {}
    for key, section in sections.items():
        for fault in iterate_section_faults(section):
            yield f"{key}: {fault}"
    for key in ("context_length", "vocab_size", "eos_id"):  # tokenizers compute with them before the model is tried
        number = text_cfg.get(key, 0)
        if type(number) is not int:
            yield f"text_cfg.{key}={_shorten(number)}: must be a whole number"
    for key in text_cfg.get("tokenizer_kwargs") or {}:
        import open_clip

        allowed = sorted({*inspect.signature(open_clip.tokenizer.HFTokenizer.__init__).parameters} - _NO_OPTIONS)
        if key not in allowed:
            yield str(unknown("key", str(key)[:SHOWN], allowed, "text_cfg.tokenizer_kwargs"))


def iterate_section_faults(section: Any) -> Iterator[str]:
    """Yield what is wrong with a section of a config: no mapping, or a value out of bounds."""
    if isinstance(section, dict):
        yield from _iterate_value_faults(section, "")
    else:
        yield f"{_shorten(section)} is no section; write keys and values in braces"


def _iterate_value_faults(value: Any, key: str) -> Iterator[str]:
    """Yield each number beyond its bound, and each text that may be a path or an address."""
    name = key.rpartition(".")[2]
    if isinstance(value, dict):
        for below in value:
            yield from _iterate_value_faults(value[below], f"{key}.{one_line(str(below))[:SHOWN]}".lstrip("."))
    elif isinstance(value, list):
        for item in value:
            yield from _iterate_value_faults(item, key)
    elif isinstance(value, str):
        form, must = NAMES.get(name, _WORD)
        if value and not re.fullmatch(form, value):
            yield f"{key}={_shorten(value)}: must be {must}"
    elif isinstance(value, (int, float)):
        limit = LIMITS.get(name, LARGEST)
        if not abs(value) <= limit:  # NaN too
            yield f"{key}={_shorten(value)}: must be a number up to {limit}"


class _TooLarge(Exception):
    """A model that has more weights than asked."""


def count_weights(model_cfg: dict, where: str, most: int) -> int:
    """Build and run a model with shapes alone; return its number of weights, or one above `most` where it has more.

    Raises UserError where open_clip cannot build it, or a tower's output is no embedding of `embed_dim` numbers.
    """
    import torch
    from torch.nn.modules import module as torch_modules

    from compclip.model import clip_model, rotary_text

    weights = 0

    def count_parameter(_module: nn.Module, _name: str, parameter: Tensor) -> None:
        nonlocal weights
        weights += parameter.numel()
        if weights > 2 * most:  # a weight may be registered twice
            raise _TooLarge

    hook = torch_modules.register_module_parameter_registration_hook(count_parameter)
    # open_clip asserts, and what it builds on raises errors of every kind
    with report_failure(f"{where}: the config does not describe an open_clip model", "repair it"):
        try:
            vision = model_cfg["vision_cfg"]
            height, width = clip_model.side_lengths(vision.get("image_size", 224))
            patch = vision.get("patch_size") or 16
            if (height // patch) * (width // patch) * vision.get("width", 768) > most:  # positions, perhaps of NumPy's
                raise _TooLarge
            with torch.random.fork_rng([]), torch.device("meta"), torch.no_grad():
                clip = rotary_text.build_module(model_cfg).eval()
                _refuse_first(_iterate_output_faults(clip, model_cfg), where)
                return sum(tensor.numel() for tensor in clip.state_dict().values())
        except _TooLarge:
            return max(most + 1, weights // 2)
        finally:
            hook.remove()


def _iterate_output_faults(clip: Any, model_cfg: dict) -> Iterator[str]:
    """Yield which tower does not give one embedding; a tower that looks at values is not run."""
    import torch

    from compclip.model import clip_model

    embed_dim = model_cfg["embed_dim"]
    text_cfg = model_cfg["text_cfg"]
    outputs: dict[str, Any] = {}
    with contextlib.suppress(NotImplementedError):
        outputs["vision_cfg"] = clip.encode_image(torch.zeros(1, 3, *clip_model.side_lengths(clip.visual.image_size)))
    if not text_cfg.get("hf_model_name"):
        tokens_1L = torch.zeros(1, text_cfg.get("context_length", 77), dtype=torch.long)
        outputs["text_cfg"] = clip.encode_text(tokens_1L)
    for tower, output in outputs.items():
        if not isinstance(output, torch.Tensor):
            yield f"{tower}: gives no embedding; remove output_tokens"
        elif output.shape != (1, embed_dim):
            yield f"embed_dim={embed_dim}: {tower} gives {list(output.shape[1:])}"


def check_size(model_cfg: dict, where: str, file: Path | None, weights_in_file: int) -> None:
    """Raise UserError for a model of more weights than twice those of its file, or than this machine's memory holds."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4  # in weights of float32
    count = count_weights(model_cfg, where, min(2 * weights_in_file, memory) if file else memory)
    if file and count > 2 * weights_in_file:
        raise UserError(
            f"{file}: a checkpoint of another architecture: holds {weights_in_file} weights, and {where} describes "
            f"{count} at least; give the model it was trained with"
        )
    if count > memory:
        raise UserError(
            f"{where}: the config describes a model of {4 * count >> 30} GiB at least, and this machine has "
            f"{4 * memory >> 30} GiB; give a smaller one"
        )


def complete_config(model_cfg: dict, state: Mapping[str, Tensor]) -> None:
    """Write into a config what weights say themselves: a learnt bias, and the length of a text (CLoVe: 64)."""
    bias = state.get("logit_bias")
    if bias is not None and bias.numel() == 1 and model_cfg.get("init_logit_bias") is None:  # tuned with a sigmoid loss
        model_cfg["init_logit_bias"] = bias.item()
    positions = state.get("positional_embedding", state.get("text.positional_embedding"))
    if positions is not None and positions.ndim == 2 and 3 <= len(positions) <= LIMITS["context_length"]:
        model_cfg["text_cfg"]["context_length"] = len(positions)


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."

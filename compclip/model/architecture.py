"""What a model's config may say, held where it enters: keys that open_clip knows, values that can be built.

A checkpoint's config is whoever made it's, and open_clip does what it says: a billion layers, code from a hub.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.errors import UserError, unknown
from compclip.base.files import read_json
from compclip.base.lazy import open_clip

if TYPE_CHECKING:
    from torch import Tensor

# Beyond every model that open_clip has, and little enough to be refused or built at once.
LAYERS, WIDTH, SIDE, POSITIONS, WORDS = 200, 16384, 4096, 8192, 1 << 22
SHOWN = 60  # characters of a wrong value
SCHEMES = ("hf-hub:", "local-dir:")  # names of models that bring their own weights
RANDOM = "random"


def is_random(model: str, weights: str) -> bool:
    """Whether a backbone of this model and these weights is drawn at random."""
    return weights in ("", RANDOM) and not model.startswith(SCHEMES)


@dataclass(frozen=True)
class Rule:
    """What a value must be, in words and as a test; `empty`: null is as if it were not given."""

    must: str
    holds: Callable[[Any], bool]
    empty: bool = False


def _whole(most: int, least: int = 1, empty: bool = False) -> Rule:
    return Rule(f"a whole number from {least} to {most}", lambda v: type(v) is int and least <= v <= most, empty)


def _number(least: float, most: float, empty: bool = False) -> Rule:
    return Rule(f"a number from {least:g} to {most:g}", lambda v: type(v) in (int, float) and least <= v <= most, empty)


def _one_of(*values: str | bool, empty: bool = False) -> Rule:
    known = " or ".join(json.dumps(value) for value in values)
    return Rule(known, lambda v: type(v) in (str, bool) and v in values, empty)


def _list(length: int, of: Rule, empty: bool = False) -> Rule:
    def holds(value: Any) -> bool:
        return isinstance(value, list) and len(value) == length and all(map(of.holds, value))

    return Rule(f"a list of {length}, each {of.must}", holds, empty)


def _either(one: Rule, other: Rule) -> Rule:
    return Rule(f"{one.must}, or {other.must}", lambda v: one.holds(v) or other.holds(v), one.empty or other.empty)


def _text(form: str, must: str) -> Rule:
    return Rule(must, lambda v: isinstance(v, str) and re.fullmatch(form, v) is not None, empty=True)


FLAG = Rule("true or false", lambda v: type(v) is bool)
SIDES = _either(_whole(SIDE), _list(2, _whole(SIDE)))
REPOSITORY = _text(r"\w[\w.-]{0,95}(/\w[\w.-]{0,95})?", "a hub's repository: OWNER/NAME, no path")
TIMM = _text(r"\w[\w.]{0,95}", "a name of timm's, no path and no hub's")
WORD = _text(r"\w{0,40}", "a word")
_SCALES = ("qk_norm", "scaled_cosine_attn", "scale_heads", "scale_attn_inner", "scale_attn", "scale_fc")
# What open_clip's own towers share.
_BLOCKS: dict[str, Any] = {
    "width": _whole(WIDTH),
    "mlp_ratio": _number(0.01, 64),
    "ls_init_value": _number(-1e3, 1e3, empty=True),
    "final_ln_after_pool": FLAG,
    "output_tokens": FLAG,
    "act_kwargs": {"approximate": _one_of("none", "tanh")},
    "norm_kwargs": {"eps": _number(0, 1)},
    "block_type": _one_of("default", "custom", empty=True),
    **dict.fromkeys(_SCALES, FLAG),
}
VISION: dict[str, Any] = {
    **_BLOCKS,
    "layers": _either(_whole(LAYERS), _list(4, _whole(LAYERS))),
    "head_width": _whole(WIDTH),
    "patch_size": _whole(SIDE, empty=True),
    "image_size": SIDES,
    "patch_dropout": _number(0, 0.99),
    "attentional_pool": _one_of(False, True, "parallel", "cascade"),
    "attn_pooler_queries": _whole(POSITIONS),
    "attn_pooler_heads": _whole(WIDTH),
    "no_ln_pre": FLAG,
    "pos_embed_type": _one_of("learnable", "sin_cos_2d"),
    "pool_type": _one_of("tok", "avg"),
    "timm_model_name": TIMM,
    "timm_model_pretrained": FLAG,
    "timm_pool": WORD,
    "timm_proj": _one_of("linear", "mlp", "none", "", empty=True),
    "timm_proj_bias": FLAG,
    "timm_drop": _number(0, 0.99),
    "timm_drop_path": _number(0, 0.99, empty=True),
}
# Of what a tokenizer may be told, all that open_clip's models say: how a text is cleaned, one token, and its language.
# Whatever else stood here would reach transformers, whose options run code.
TOKENIZER: dict[str, Any] = {
    "clean": _one_of("canonicalize", "lower", "whitespace"),
    "strip_sep_token": FLAG,
    "language": WORD,
}
TEXT: dict[str, Any] = {
    **_BLOCKS,
    "context_length": _whole(POSITIONS, least=3),  # a start, an end, and something between
    "vocab_size": _whole(WORDS),
    "hf_tokenizer_name": REPOSITORY,
    "tokenizer_mode": _one_of("clips", "", empty=True),
    "tokenizer_kwargs": TOKENIZER,
    "heads": _whole(WIDTH),
    "layers": _whole(LAYERS),
    "embed_cls": FLAG,
    "pad_id": _whole(WORDS, least=0),
    "eos_id": _whole(WORDS, least=0),
    "no_causal_mask": FLAG,
    "pool_type": _one_of("first", "last", "argmax", "eos"),
    "proj_bias": FLAG,
    "proj_type": _one_of("linear", "none"),
    "hf_model_name": REPOSITORY,
    "hf_model_pretrained": FLAG,
    "hf_proj_type": _one_of("linear", "mlp"),
    "hf_pooler_type": WORD,
}
TELLS = "multimodal_cfg"  # of CoCa, which writes captions
DECODER = {**TEXT, "dim_head": _whole(WIDTH), "n_queries": _whole(POSITIONS), "attn_pooler_heads": _whole(WIDTH)}
MODEL: dict[str, Any] = {
    "embed_dim": _whole(WIDTH),
    "vision_cfg": VISION,
    "text_cfg": TEXT,
    TELLS: DECODER,
    "custom_text": FLAG,
    "quick_gelu": FLAG,
    "init_logit_scale": _number(-1e3, 1e3),
    "init_logit_bias": _number(-1e3, 1e3, empty=True),
    "nonscalar_logit_scale": FLAG,
}
PREPROCESS: dict[str, Any] = {
    "size": replace(SIDES, empty=True),
    "mode": _one_of("RGB", empty=True),
    "mean": _list(3, _number(-10, 10), empty=True),
    "std": _list(3, _number(1e-4, 10), empty=True),
    "interpolation": _one_of("bicubic", "bilinear", "random", empty=True),
    "resize_mode": _one_of("shortest", "longest", "squash", empty=True),
    "fill_color": _whole(255, least=0, empty=True),
}
# `tokenizer` is ours: whether a stand-in was used.
RECORD: dict[str, Any] = {"model_cfg": MODEL, "preprocess_cfg": PREPROCESS, "tokenizer": _one_of("", "clip")}
NULLABLE = {"act_kwargs", "norm_kwargs", "tokenizer_kwargs", "preprocess_cfg"}


def read(path: str | Path) -> dict:
    """The config of a folder in open_clip's format: `model_cfg`, `preprocess_cfg`, and what we add.

    Raises UserError for what is none, naming the key that open_clip does not know, or whose value cannot be.
    """
    record = read_json(path)
    if not isinstance(record, dict) or "model_cfg" not in record:
        raise UserError(f"{path}: no key 'model_cfg'; not an open_clip config")
    _check_keys(record, RECORD, str(path), "")
    _check_together(record["model_cfg"], f"{path}: model_cfg")
    return record


def check(model_cfg: Any, where: str) -> None:
    """Raise UserError for a `model_cfg` that does not describe a model, naming key, value and what it must be."""
    _check_keys(model_cfg, MODEL, where, "")
    _check_together(model_cfg, where)


def _check_keys(section: Any, rules: Mapping[str, Any], where: str, key: str) -> None:
    place = f"{where}: {key}" if key else where
    if not isinstance(section, dict):
        raise UserError(f"{place}: {_shown(section)} is no section; write keys and values in braces")
    for name, value in section.items():
        below, rule = f"{key}.{name}".lstrip("."), rules.get(name)
        if rule is None:
            raise unknown("key", name[:SHOWN], rules, place)
        if isinstance(rule, Rule):
            if not (rule.holds(value) or (value is None and rule.empty)):
                raise UserError(f"{where}: {below}={_shown(value)}: must be {rule.must}")
        elif not (value is None and name in NULLABLE):
            _check_keys(value, rule, where, below)


def _check_together(model_cfg: dict, where: str) -> None:
    """What single values do not show: parts that are missing, or do not go together."""
    for key in ("embed_dim", "vision_cfg", "text_cfg"):
        if key not in model_cfg:
            raise UserError(f"{where}: no key {key!r}; not an open_clip config")
    vision, text = model_cfg["vision_cfg"], model_cfg["text_cfg"]
    if not vision.get("timm_model_name"):
        _check_patches(vision, where)
    tells = TELLS in model_cfg
    for name, tower in (("vision_cfg", vision), ("text_cfg", text)):
        if tells and not tower.get("output_tokens"):
            raise UserError(f"{where}: {name}.output_tokens=false: {TELLS} looks at tokens; must be true")
        if tower.get("output_tokens") and not tells:
            raise UserError(f"{where}: {name}.output_tokens=true: gives no embedding; must be false")
    if text.get("proj_type") == "none" and text.get("width", 512) != model_cfg["embed_dim"]:
        raise UserError(f"{where}: text_cfg.proj_type=none: needs a width that is embed_dim={model_cfg['embed_dim']}")
    if text.get("embed_cls") and not (tells or model_cfg.get("custom_text")):
        raise UserError(f"{where}: text_cfg.embed_cls=true: needs custom_text; must be false")


def _check_patches(vision: dict, where: str) -> None:
    sides, stages = pair(vision.get("image_size") or 224), isinstance(vision.get("layers"), list)
    patch = 32 if stages else vision.get("patch_size") or 16  # a ResNet's pool has a position for each 32 pixels
    if min(sides) < patch or (stages and max(sides) % patch):
        fix = f"must be a multiple of {patch}" if stages else f"must be at least patch_size={patch}"
        raise UserError(f"{where}: vision_cfg.image_size={_shown(vision.get('image_size', 224))}: {fix}")


def adapt(model_cfg: dict, state: Mapping[str, Tensor]) -> None:
    """Write into a config what weights say of it themselves: a learnt bias, and how long a text is (CLoVe: 64)."""
    bias = state.get("logit_bias")
    if bias is not None and bias.numel() == 1 and model_cfg.get("init_logit_bias") is None:  # tuned with a sigmoid loss
        model_cfg["init_logit_bias"] = bias.item()
    places = state.get("positional_embedding", state.get("text.positional_embedding"))
    if places is not None and places.ndim == 2 and 3 <= len(places) <= POSITIONS:
        model_cfg["text_cfg"]["context_length"] = len(places)


def pair(size: Any) -> tuple[int, int]:
    """Height and width, of which one number gives both."""
    return (size[0], size[1]) if isinstance(size, (list, tuple)) else (size, size)


def least_weights(model_cfg: dict) -> int:
    """How many weights a model of this config has at least; towers of other libraries count as none."""
    vision = open_clip.CLIPVisionCfg(**model_cfg["vision_cfg"])
    text = open_clip.CLIPTextCfg(**model_cfg["text_cfg"])
    images = 0 if vision.timm_model_name else _stages(vision) if isinstance(vision.layers, list) else _patches(vision)
    texts = 0 if text.hf_model_name else _blocks(text) + text.width * (text.vocab_size + text.context_length)
    return images + texts + _decoder(model_cfg.get(TELLS), text.vocab_size)


def _decoder(cfg: dict | None, vocab_size: int) -> int:
    """CoCa's: as many blocks that look at the picture as at the text, and a score for each word."""
    if cfg is None:
        return 0
    tower = open_clip.coca_model.MultimodalCfg(**cfg)
    return 2 * _blocks(tower) + tower.width * vocab_size


def _stages(vision: Any) -> int:
    """A ResNet's 3 x 3 convolutions."""
    return sum(9 * blocks * (vision.width << stage) ** 2 for stage, blocks in enumerate(vision.layers))


def _patches(vision: Any) -> int:
    height, width = pair(vision.image_size)
    patch = vision.patch_size or 16
    return _blocks(vision) + vision.width * ((height // patch) * (width // patch) + 3 * patch**2)


def _blocks(tower: Any) -> int:
    """Attention and MLP of a transformer."""
    return tower.layers * tower.width * (4 * tower.width + 2 * int(tower.width * tower.mlp_ratio))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."

"""Weights of models that their authors wrote by themselves, as open_clip's towers and, where they have one, a head.

A layout is known by a tensor's name. Each was read in the authors' repository and compared with their forward code on
made weights (experiments/log/2026-11.md); no author's file was at hand.

FLAIR: ExplainableML/flair (0f9ce05), src/flair/model.py. CLIP whose projections lie behind its towers.
FG-CLIP: 360CVGroup/FG-CLIP (branch v1.0), fgclip/model/clip_strc. transformers' CLIPModel; its second positions and
projection, for texts of more than 77 tokens, are left out. Pictures are squashed, as its evaluation does.
EVA-CLIP, in whose names FineCLIP is (Timsty1/FineCLIP, 8095da3): what timm calls otherwise.
FDT and iterated learning: yuxiaochen1103/FDT (ccf6983), hellomuffin/iterated-learning-for-vlm (a46a2c5),
prototype/model/clip_fdt.py. CLIP whose patches and tokens ask a codebook; their own projections are not used. The
temperature is in no file: 1000 from the first to the last step in both configurations (t_decay: sd_T_decay_w is 1).
SuperCLIP: hustvl/SuperCLIP (fb59c6d), superclip/open_clip/superclip_model.py. CLIP, whose inference does without the
layer that reads words and its counts.
Llip: facebookresearch/Llip (d5649c3), llip/open_clip/model.py, CMP. The attention's temperature is in no file: 5 where
it was trained (weight_scale); its evaluation tries 1, 3, 5, 8 and 10.
CLIP-IN: tommmmywangzt1118/VITRIX-CLIPIN (bfd90fa), eval/vitl/transformer_rope.py. A text tower of its own, without
learnt positions. How long texts may be is in no file: the program speaks of up to 200 tokens.
Long-CLIP: beichenzbc/Long-CLIP (4e6f5da), model/model_longclip.py. CLIP with QuickGELU for texts of 248 tokens, which
has two lists of positions: the first 20 are of one, frozen in its training, the others of the second.

A projection that a head takes over is the identity in the text tower, which then gives its tokens as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compclip.base.errors import report_failure
from compclip.model import class_tokens, heads, rotary_text
from compclip.model.clip_model import GELU, QUICK
from compclip.model.heads import Head

State = dict[str, Tensor]
IMAGENET: dict[str, Any] = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
ATTENTION_HEADS = 8  # of FLAIR's and Llip's pooling
CODE_TEMPERATURE = 1000.0
MIXTURE_TEMPERATURE = 5
STEADY_POSITIONS = 20  # of Long-CLIP
ROTARY_POSITIONS = 200  # of CLIP-IN's texts


@dataclass(frozen=True)
class AuthorsModel:
    """Tensors by open_clip's names, and what else their layout says.

    `activation`: which its program computes. `vision_cfg`, `text_cfg`, `preprocess_cfg`: what differs from an
    architecture's own.
    """

    state: State
    activation: str = ""
    vision_cfg: dict[str, Any] = field(default_factory=dict)
    text_cfg: dict[str, Any] = field(default_factory=dict)
    preprocess_cfg: dict[str, Any] = field(default_factory=dict)
    head: Head | None = None


def convert(state: State, path: Path) -> AuthorsModel:
    """Return weights as open_clip's; those of no layout here stay as they are.

    Raises UserError for a tensor of a layout that is missing or of another shape.
    """
    for marker, layout in LAYOUTS.items():
        if marker in state:
            kinds = (LookupError, TypeError, ValueError, RuntimeError)
            with report_failure(f"{path}: has {marker!r}, but is no such checkpoint", "fetch it again", *kinds):
                return layout(dict(state), path)
    return AuthorsModel(state)


def _take(state: State, name: str, dimensions: int) -> Tensor:
    """Take a tensor out of a state. Raises ValueError where it is missing, or has other dimensions."""
    if name not in state or state[name].ndim != dimensions:
        found = f"has {state[name].ndim} dimensions" if name in state else "is missing"
        raise ValueError(f"{name!r} {found}, expected {dimensions} dimensions")
    return state.pop(name)


def _take_all(state: State, prefix: str, ours: str) -> State:
    """Take out the tensors whose names begin with a prefix, and give them another one."""
    renamed = {}
    for name in list(state):
        if name.startswith(prefix):
            renamed[ours + name.removeprefix(prefix)] = state.pop(name)
    return renamed


def _fill(kind: str, options: Mapping[str, int], state: State, path: Path) -> Head:
    """Build a head of its weights."""
    with torch.device("meta"):
        head = heads.ALL_KINDS[kind](**options)
    return heads.fill_head(head, state, str(path), f"no weights of a head ({kind}) for these towers", "fetch it again")


def _convert_flair(state: State, path: Path) -> AuthorsModel:
    state["visual.proj"] = _take(state, "image_post.proj", 2)
    state["text_projection"] = _take(state, "text_post.proj", 2)
    head: State = {}
    for theirs, ours in (("attn", "attention"), ("ln_q", "norm_query"), ("ln_k", "norm_key"), ("ln_v", "norm_value")):
        head |= _take_all(state, f"visual_proj.{theirs}.", f"{ours}.")
    options = {"width": state["visual.proj"].shape[1], "heads": ATTENTION_HEADS}
    return AuthorsModel(state, GELU, head=_fill("text_pooling", options, head, path))


def _convert_fg_clip(state: State, _path: Path) -> AuthorsModel:
    for name in ("text_filip_projection.weight", "logit_scale_finegraind", "logit_scale_hardneg"):
        state.pop(name, None)
    _take_all(state, "text_model.embeddings.position_embedding_", "")
    return AuthorsModel(state, preprocess_cfg={"resize_mode": "squash"})


# EVA-CLIP's names of parts of a block, and timm's.
_EVA = {
    "mlp.ffn_ln": "mlp.norm",
    "mlp.w1": "mlp.fc1_g",
    "mlp.w2": "mlp.fc1_x",
    "mlp.w3": "mlp.fc2",
    "attn.inner_attn_ln": "attn.norm",
    "attn.q_bias": "attn.q_proj.bias",
    "attn.v_bias": "attn.v_proj.bias",
}


def _convert_eva_clip(state: State, _path: Path) -> AuthorsModel:
    renamed = {}
    for name, tensor in state.items():
        if not name.startswith("visual."):
            is_text = not name.startswith(("text.", "logit_scale"))  # as EVA-CLIP's own class CLIP has them
            renamed[f"text.{name}" if is_text else name] = tensor
        elif ".rope." not in name:  # computed, not trained
            for theirs, ours in _EVA.items():
                name = name.replace(f".{theirs}", f".{ours}")
            renamed[name.replace("visual.", "visual.trunk.", 1)] = tensor
    return AuthorsModel(renamed)


def _convert_finite_tokens(state: State, path: Path) -> AuthorsModel:
    state.pop("logit_scale_sd", None)
    state["visual.ln_post.weight"] = _take(state, "img_query_model.q_map.0.weight", 1)
    state["visual.ln_post.bias"] = _take(state, "img_query_model.q_map.0.bias", 1)
    state["visual.proj"] = _take(state, "img_query_model.q_map.1.weight", 2).T
    text = _take_all(state, "encode_text.", "")
    _take_all(text, "text_projection.", "")
    words = _take(text, "token_embedding.weight", 2)
    text["token_embedding.weight"] = torch.cat([words[:-3], words[-2:]])  # without their <|mask|>
    head = _make_codebook(state, len(text["positional_embedding"]), path)
    text["text_projection"] = torch.eye(head.options["width"])
    preprocess_cfg = IMAGENET | {"resize": 256, "interpolation": "bilinear"}  # ONECROP, imagenet_dataloader.py
    return AuthorsModel(state | text, QUICK, preprocess_cfg=preprocess_cfg, head=head)


def _make_codebook(state: State, context: int, path: Path) -> Head:
    """Take the codes, and what of the queries the image tower does not take."""
    code = _take(state, "space_dict", 2)
    weights = {"code": code, "image_bias": _take(state, "img_query_model.q_map.1.bias", 1)}
    for number in (3, 4):  # behind GELU, which has no weights
        weights |= _take_all(state, f"img_query_model.q_map.{number}.", f"image_query.{number - 2}.")
    weights |= _take_all(state, "txt_query_model.q_map.", "text_query.")
    weights["temperature"] = torch.tensor(CODE_TEMPERATURE)
    return _fill("finite_tokens", {"width": code.shape[1], "codes": len(code), "context": context}, weights, path)


def _convert_superclip(state: State, _path: Path) -> AuthorsModel:
    for name in ("cap_fq", "num_samples"):
        state.pop(name, None)
    _take_all(state, "text_decoder.", "")
    text = _take_all(state, "text.", "")
    return AuthorsModel(state | text, GELU)


def _convert_llip(state: State, path: Path) -> AuthorsModel:
    out = "out_proj" if "out_proj" in state else "pred.out_proj"  # of an older file (evals/metaclip_evals/eval.py)
    weights = {
        "key": _take(state, "k_proj", 3),
        "value": _take(state, "v_proj", 3),
        "query": _take(state, "q_proj", 2),
        "text_projection": _take(state, "text_projection", 2),
        "out": _take(state, out, 2),
    }
    tokens, token_width, width = weights["value"].shape
    options = {
        "width": width,
        "tokens": tokens,
        "token_width": token_width,
        "text_width": len(weights["query"]),
        "heads": ATTENTION_HEADS,
        "temperature": MIXTURE_TEMPERATURE,
    }
    head = _fill("mixed_tokens", options, weights, path)
    state["visual.first_proj"] = weights["value"][0]
    state["text_projection"] = torch.eye(width)
    return AuthorsModel(state, QUICK, vision_cfg={class_tokens.OPTION: tokens}, head=head)


def _convert_clip_in(state: State, _path: Path) -> AuthorsModel:
    if "text.positional_embedding" in state:  # any program's text tower of its own
        return AuthorsModel(state)
    state |= _take_all(state, "text.", "")
    state["positional_embedding"] = torch.zeros(ROTARY_POSITIONS, state["token_embedding.weight"].shape[1])
    return AuthorsModel(state, text_cfg={rotary_text.OPTION: True})


def _convert_long_clip(state: State, _path: Path) -> AuthorsModel:
    stretched = _take(state, "positional_embedding_res", 2)
    first = _take(state, "positional_embedding", 2)[:STEADY_POSITIONS]
    state["positional_embedding"] = torch.cat([first, stretched[STEADY_POSITIONS:]])
    return AuthorsModel(state, QUICK)


# By a tensor that no other layout has.
LAYOUTS: dict[str, Callable[[State, Path], AuthorsModel]] = {
    "image_post.proj": _convert_flair,
    "text_filip_projection.weight": _convert_fg_clip,
    "visual.cls_token": _convert_eva_clip,
    "space_dict": _convert_finite_tokens,
    "positional_embedding_res": _convert_long_clip,
    "cap_fq": _convert_superclip,
    "k_proj": _convert_llip,
    "text.token_embedding.weight": _convert_clip_in,
}

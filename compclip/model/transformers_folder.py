"""Folders in transformers' format, CLIPModel and SiglipModel, by open_clip's names; transformers itself is not asked.

Also TripletCLIP's pair of folders, a tower each, which has no logit scale: theirs is read as 100. SigLIP's GELU is an
approximation by tanh in transformers, and exact in open_clip's first SigLIP models: embeddings differ a little. Code
that lies beside the weights is not looked at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from compclip.base.errors import UserError
from compclip.base.files import read_json

CONFIG = "config.json"
NAMES = ("model.safetensors", "pytorch_model.bin")
PAIR = ("text-encoder", "vision-encoder")
# Which activation is whose, and what a config means that does not say.
ACTIVATIONS = {"quick_gelu": "quickgelu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu", "gelu_new": "gelu"}
USUAL = {"clip": "quickgelu", "clip_text_model": "quickgelu", "clip_vision_model": "quickgelu", "siglip": "gelu"}
_LAYER = re.compile(r"(text|vision)_model\.encoder\.layers\.(\d{1,4})\.(.+)\.(weight|bias)")
_BOTH = ("weight", "bias")
_ENDS = {
    "vision_model.embeddings.class_embedding": "visual.class_embedding",
    "vision_model.embeddings.patch_embedding.weight": "visual.conv1.weight",
    "vision_model.embeddings.position_embedding.weight": "visual.positional_embedding",
    "text_model.embeddings.token_embedding.weight": "token_embedding.weight",
    "text_model.embeddings.position_embedding.weight": "positional_embedding",
    **{f"vision_model.pre_layrnorm.{end}": f"visual.ln_pre.{end}" for end in _BOTH},
    **{f"vision_model.post_layernorm.{end}": f"visual.ln_post.{end}" for end in _BOTH},
    **{f"text_model.final_layer_norm.{end}": f"ln_final.{end}" for end in _BOTH},
}
_PROJECTIONS = {"visual_projection.weight": "visual.proj", "text_projection.weight": "text_projection"}
_BLOCK = {"layer_norm1": "ln_1", "layer_norm2": "ln_2", "self_attn.out_proj": "attn.out_proj",
          "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj"}  # fmt: skip
_TIMM_BLOCK = {"layer_norm1": "norm1", "layer_norm2": "norm2", "self_attn.out_proj": "attn.proj",
               "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}  # fmt: skip
_SIGLIP_ENDS = {
    "text_model.embeddings.token_embedding.weight": "text.token_embedding.weight",
    "text_model.embeddings.position_embedding.weight": "text.positional_embedding",
    **{f"text_model.final_layer_norm.{end}": f"text.ln_final.{end}" for end in _BOTH},
    **{f"text_model.head.{end}": f"text.text_projection.{end}" for end in _BOTH},
    **{f"vision_model.embeddings.patch_embedding.{end}": f"visual.trunk.patch_embed.proj.{end}" for end in _BOTH},
    **{f"vision_model.post_layernorm.{end}": f"visual.trunk.norm.{end}" for end in _BOTH},
    "vision_model.head.probe": "visual.trunk.attn_pool.latent",
    **{f"vision_model.head.attention.out_proj.{end}": f"visual.trunk.attn_pool.proj.{end}" for end in _BOTH},
    **{f"vision_model.head.layernorm.{end}": f"visual.trunk.attn_pool.norm.{end}" for end in _BOTH},
    **{f"vision_model.head.mlp.fc1.{end}": f"visual.trunk.attn_pool.mlp.fc1.{end}" for end in _BOTH},
    **{f"vision_model.head.mlp.fc2.{end}": f"visual.trunk.attn_pool.mlp.fc2.{end}" for end in _BOTH},
}  # fmt: skip
_POOL = "vision_model.head.attention.in_proj_"
_PLACES = "vision_model.embeddings.position_embedding.weight"


def holds(path: Path) -> bool:
    """Whether a folder is one of transformers', or a pair of them."""
    return path.is_dir() and bool(_parts(path))


def files(folder: Path) -> list[Path]:
    """Its weights. Raises UserError where they are not there, or in several parts."""
    found = []
    for part in _parts(folder):
        file = next((part / name for name in NAMES if (part / name).is_file()), None)
        if file is None:
            raise UserError(f"{part}: has {CONFIG} but no {NAMES[0]}; put the weights there, in one file")
        found.append(file)
    return found


def activation(folder: Path) -> str:
    """What its config says of the activation; empty where it does not. Raises UserError for none of open_clip's."""
    said = {found for part in _parts(folder) for found in _activations(part / CONFIG)}
    if len(said) > 1:
        raise UserError(
            f"{folder}: its towers have two activations, {' and '.join(sorted(said))}; no open_clip model has"
        )
    return said.pop() if said else ""


def renamed(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by open_clip's names; one whose name is not transformers' keeps it."""
    given = {k: v for k, v in state.items() if not k.endswith(".position_ids")}
    siglip = any(name.startswith("vision_model.head.") for name in given)
    made = _siglip(given) if siglip else _clip(given)
    return made | {"logit_scale": torch.tensor(math.log(100.0))} if "logit_scale" not in made else made


def _parts(folder: Path) -> list[Path]:
    """The folder, or the two towers' below it; none where it is none of transformers'."""
    below = [folder / name for name in PAIR]
    return [folder] if (folder / CONFIG).is_file() else below if all((p / CONFIG).is_file() for p in below) else []


def _activations(path: Path) -> list[str]:
    config = read_json(path)
    if not isinstance(config, dict):
        raise UserError(f"{path}: no mapping; fetch the file again")
    towers = [t for key in ("text_config", "vision_config") if isinstance(t := config.get(key), dict)] or [config]
    said = [t.get("hidden_act") for t in towers]
    usual = USUAL.get(config["model_type"], "") if isinstance(config.get("model_type"), str) else ""
    for found in said:
        if found is not None and (not isinstance(found, str) or found not in ACTIVATIONS):
            raise UserError(f"{path}: hidden_act={str(found)[:40]!r}: must be one of {', '.join(ACTIVATIONS)}")
    return list(filter(None, (usual if found is None else ACTIVATIONS[found] for found in said)))


def _clip(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    made, parts = {}, dict[str, dict[str, Tensor]]()
    for name, tensor in given.items():
        if name in _PROJECTIONS:
            made[_PROJECTIONS[name]] = tensor.T
        elif place := _LAYER.fullmatch(name):
            tower = "visual.transformer" if place[1] == "vision" else "transformer"
            _place(made, parts, f"{tower}.resblocks.{int(place[2])}", place, tensor, _BLOCK)
        else:
            made[_ENDS.get(name, name)] = tensor
    return made | _joined(parts)


def _siglip(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    made, parts = {}, dict[str, dict[str, Tensor]]()
    for name, tensor in given.items():
        if name == _PLACES:
            made["visual.trunk.pos_embed"] = tensor[None]
        elif name.startswith(_POOL):
            made |= _pool(name.removeprefix(_POOL), tensor)
        elif place := _LAYER.fullmatch(name):
            vision, layer = place[1] == "vision", int(place[2])
            block = f"visual.trunk.blocks.{layer}" if vision else f"text.transformer.resblocks.{layer}"
            _place(made, parts, block, place, tensor, _TIMM_BLOCK if vision else _BLOCK)
        else:
            made[_SIGLIP_ENDS.get(name, name)] = tensor
    return made | _joined(parts)


def _pool(end: str, tensor: Tensor) -> dict[str, Tensor]:
    """Query, key and value of the pool, of which timm keeps the first by itself."""
    width = len(tensor) // 3 if tensor.ndim else 0
    pool = "visual.trunk.attn_pool"
    return (
        {f"{pool}.q.{end}": tensor[:width], f"{pool}.kv.{end}": tensor[width:]} if width else {f"{_POOL}{end}": tensor}
    )


def _place(
    made: dict[str, Tensor], parts: dict[str, dict[str, Tensor]], block: str, place: re.Match[str], tensor: Tensor,
    names: Mapping[str, str],
) -> None:  # fmt: skip
    """A layer's tensor under its name, or kept among those that are one tensor in open_clip."""
    part, end = place[3], place[4]
    if part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"):
        whole = f"{block}.attn.qkv.{end}" if names is _TIMM_BLOCK else f"{block}.attn.in_proj_{end}"
        parts.setdefault(whole, {})[part[-6]] = tensor
    else:
        made[f"{block}.{names[part]}.{end}" if part in names else place[0]] = tensor


def _joined(parts: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Queries, keys and values as one tensor each; of three that do not go together the parts."""
    made = {}
    for whole, own in parts.items():
        fits = set(own) == set("qkv") and len({t.shape for t in own.values()}) == 1 and own["q"].ndim
        made |= {whole: torch.cat([own[k] for k in "qkv"])} if fits else {f"{whole}.{k}": t for k, t in own.items()}
    return made

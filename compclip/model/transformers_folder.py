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


def is_folder(path: Path) -> bool:
    """Return whether a folder is in transformers' format, or a pair of such folders."""
    return path.is_dir() and bool(_tower_folders(path))


def find_files(folder: Path) -> list[Path]:
    """Return a folder's weights files. Raises UserError where they are missing, or in several parts."""
    files = []
    for tower in _tower_folders(folder):
        file = next((tower / name for name in NAMES if (tower / name).is_file()), None)
        if file is None:
            raise UserError(f"{tower}: has {CONFIG} but no {NAMES[0]}; put the weights there, in one file")
        files.append(file)
    return files


def read_activation(folder: Path) -> str:
    """Return the activation that a folder's config names, or nothing. Raises UserError for one that open_clip lacks."""
    activations = {name for tower in _tower_folders(folder) for name in _activations(tower / CONFIG)}
    if len(activations) > 1:
        raise UserError(
            f"{folder}: its towers have two activations, {' and '.join(sorted(activations))}; no open_clip model has"
        )
    return activations.pop() if activations else ""


def rename_tensors(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors by open_clip's names; a name that is not transformers' stays."""
    tensors = {k: v for k, v in state.items() if not k.endswith(".position_ids")}
    siglip = any(name.startswith("vision_model.head.") for name in tensors)
    renamed = _rename_siglip(tensors) if siglip else _rename_clip(tensors)
    return {"logit_scale": torch.tensor(math.log(100.0))} | renamed


def _tower_folders(folder: Path) -> list[Path]:
    """Return the folder itself, the folders of two towers below it, or nothing where it is not transformers'."""
    if (folder / CONFIG).is_file():
        return [folder]
    towers = [folder / name for name in PAIR]
    return towers if all((tower / CONFIG).is_file() for tower in towers) else []


def _activations(path: Path) -> list[str]:
    config = read_json(path)
    if not isinstance(config, dict):
        raise UserError(f"{path}: no mapping; fetch the file again")
    towers = [t for key in ("text_config", "vision_config") if isinstance(t := config.get(key), dict)] or [config]
    names = [t.get("hidden_act") for t in towers]
    usual = USUAL.get(config["model_type"], "") if isinstance(config.get("model_type"), str) else ""
    for name in names:
        if name is not None and (not isinstance(name, str) or name not in ACTIVATIONS):
            raise UserError(f"{path}: hidden_act={str(name)[:40]!r}: must be one of {', '.join(ACTIVATIONS)}")
    return list(filter(None, (usual if name is None else ACTIVATIONS[name] for name in names)))


def _rename_clip(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    renamed, projections = {}, dict[str, dict[str, Tensor]]()
    for name, tensor in tensors.items():
        if name in _PROJECTIONS:
            renamed[_PROJECTIONS[name]] = tensor.T
        elif match := _LAYER.fullmatch(name):
            tower = "visual.transformer" if match[1] == "vision" else "transformer"
            _rename_layer(renamed, projections, f"{tower}.resblocks.{int(match[2])}", match, tensor, _BLOCK)
        else:
            renamed[_ENDS.get(name, name)] = tensor
    return renamed | _join_projections(projections)


def _rename_siglip(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    renamed, projections = {}, dict[str, dict[str, Tensor]]()
    for name, tensor in tensors.items():
        if name == _PLACES:
            renamed["visual.trunk.pos_embed"] = tensor[None]
        elif name.startswith(_POOL):
            renamed |= _split_pool(name.removeprefix(_POOL), tensor)
        elif match := _LAYER.fullmatch(name):
            vision, layer = match[1] == "vision", int(match[2])
            block = f"visual.trunk.blocks.{layer}" if vision else f"text.transformer.resblocks.{layer}"
            _rename_layer(renamed, projections, block, match, tensor, _TIMM_BLOCK if vision else _BLOCK)
        else:
            renamed[_SIGLIP_ENDS.get(name, name)] = tensor
    return renamed | _join_projections(projections)


def _split_pool(end: str, tensor: Tensor) -> dict[str, Tensor]:
    """Split the pool's projection into query, and key with value, as timm has them."""
    width = len(tensor) // 3 if tensor.ndim else 0
    pool = "visual.trunk.attn_pool"
    if not width:
        return {f"{_POOL}{end}": tensor}
    return {f"{pool}.q.{end}": tensor[:width], f"{pool}.kv.{end}": tensor[width:]}


def _rename_layer(
    renamed: dict[str, Tensor], projections: dict[str, dict[str, Tensor]], block: str, match: re.Match[str],
    tensor: Tensor, names: Mapping[str, str],
) -> None:  # fmt: skip
    """Add a layer's tensor to `renamed`, or to `projections` if it is a part of one tensor in open_clip."""
    layer, end = match[3], match[4]
    if layer in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"):
        joined = f"{block}.attn.qkv.{end}" if names is _TIMM_BLOCK else f"{block}.attn.in_proj_{end}"
        projections.setdefault(joined, {})[layer[-6]] = tensor
    else:
        renamed[f"{block}.{names[layer]}.{end}" if layer in names else match[0]] = tensor


def _join_projections(projections: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return query, key and value as one tensor each; three that do not fit together stay apart."""
    joined = {}
    for name, tensors in projections.items():
        if set(tensors) == set("qkv") and len({t.shape for t in tensors.values()}) == 1 and tensors["q"].ndim:
            joined[name] = torch.cat([tensors[key] for key in "qkv"])
        else:
            joined |= {f"{name}.{key}": tensor for key, tensor in tensors.items()}
    return joined

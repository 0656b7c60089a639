"""Files in transformers' format that come from elsewhere: weights of CLIPModel and SiglipModel, tokenizers, towers.

Weights are read by open_clip's names, and transformers itself is not asked. So is TripletCLIP's pair of folders, a
tower each, which has no logit scale: theirs is read as 100. SigLIP's GELU is an approximation by tanh in transformers,
and exact in open_clip's first SigLIP models: embeddings differ a little. Code beside weights is not looked at.

Tokenizers and text towers are opened by transformers, and looked at before: it runs a repository's code where it is
told to, and asks a person at a terminal where it is not.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from compclip.base.errors import UserError
from compclip.base.files import read_mapping
from compclip.model import model_config

CONFIG = "config.json"
TOKENIZER = "tokenizer_config.json"
NAMES = ("model.safetensors", "pytorch_model.bin")
INDEX = ".index.json"  # behind the name of weights that lie in several files
PAIR = ("text-encoder", "vision-encoder")
# Which activation is whose, and what a config means that does not say.
ACTIVATIONS = {"quick_gelu": "quickgelu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu", "gelu_new": "gelu"}
USUAL = {"clip": "quickgelu", "clip_text_model": "quickgelu", "clip_vision_model": "quickgelu", "siglip": "gelu"}
# Whose tokenizers may be asked for, as transformers names classes (XLMRobertaTokenizerFast) and models (xlm-roberta).
# Some others of its classes open what lies in folders below by themselves.
TOKENIZERS = (
    "albert", "bart", "bert", "camembert", "clip", "deberta", "debertav2", "distilbert", "electra", "gemma", "gpt2",
    "llama", "m2m100", "mbart", "mpnet", "mt5", "nllb", "pretrained", "qwen2", "roberta", "siglip", "siglip2", "t5",
    "tokenizersbackend", "xlmroberta", "xlnet",
)  # fmt: skip


# --- tokenizers and text towers -------------------------------------------------------------------------------


def check_tokenizer(source: str) -> None:
    """Raise UserError where a tokenizer, in a folder or of a hub, has code or a class of its own."""
    tokenizer_config = _read_settings(source, TOKENIZER)
    model_settings = _read_settings(source, CONFIG)
    kinds = [tokenizer_config.get("tokenizer_class"), model_settings.get("tokenizer_class")]
    if not any(kinds):
        kinds = [model_settings.get("model_type")]
    for kind in filter(None, kinds):
        bare = str(kind).removesuffix("Fast").removesuffix("Tokenizer").lower().replace("-", "").replace("_", "")
        if bare not in TOKENIZERS:
            raise UserError(
                f"tokenizer {source}: is a {str(kind)[:80]}, a class of its own or one that may open other files; "
                "save it again as a PreTrainedTokenizerFast"
            )


def check_text_tower(repository: str, where: str) -> None:
    """Raise UserError where the text tower that a config names is none of open_clip's kinds, or has code of its own."""
    import open_clip

    config = _read_settings(repository, CONFIG)
    kinds = open_clip.hf_configs.arch_dict
    if config and config.get("model_type") not in kinds:
        raise UserError(f"{where}: text_cfg.hf_model_name={repository}: must be one of {', '.join(sorted(kinds))}")
    for key, value in config.items():
        if type(value) is int and value > (model_config.LIMITS["layers"] if "layers" in key else model_config.LARGEST):
            raise UserError(f"{where}: text_cfg.hf_model_name={repository}: {key[:80]} is too large to be built")


def _read_settings(source: str, file: str) -> dict:
    """Return a JSON file of a folder, or of a hub's repository from its cache or fetched; empty where there is none.

    Raises UserError for one that is no mapping, or says that code is to be run.
    """
    import open_clip

    path = Path(source) / file
    if not Path(source).is_dir():
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            path = Path(open_clip.pretrained.download_pretrained_from_hf(source, filename=file))
    settings = read_mapping(path) if path.is_file() else {}
    if settings.get("auto_map"):
        raise UserError(
            f"{path}: auto_map asks to run the code that lies beside it; nobody's code is run: give a model and a "
            "tokenizer of transformers' own kinds"
        )
    return settings


# --- folders of weights ---------------------------------------------------------------------------------------


def is_folder(path: Path) -> bool:
    """Return whether a folder is in transformers' format, or a pair of such folders."""
    return path.is_dir() and bool(_tower_folders(path))


def find_files(folder: Path) -> list[Path]:
    """Return the weights files of a folder or of two towers. Raises UserError where there are none."""
    files = []
    for tower in _tower_folders(folder):
        files += list_parts(find_file(tower, NAMES, f"has {CONFIG} but no weights"))
    return files


def find_file(folder: Path, names: Sequence[str], fault: str) -> Path:
    """Return the first weights file of these names that a folder has, or the index of its parts.

    Raises UserError, which says `fault`, where there is none.
    """
    for name in names:
        for path in (folder / name, folder / f"{name}{INDEX}"):
            if path.is_file():
                return path
    raise UserError(f"{folder}: {fault}; put {names[0]} there")


def list_parts(path: Path) -> list[Path]:
    """Return the files of weights: the one itself, or those that an index names. Raises UserError for a wrong index."""
    if not path.name.endswith(INDEX):
        return [path]
    places = read_mapping(path).get("weight_map")
    names = list(places.values()) if isinstance(places, dict) else []
    for name in names or [None]:
        if not isinstance(name, str) or not name.endswith((".safetensors", ".bin")) or name != Path(name).name:
            raise UserError(f"{path}: weight_map: must name files of its folder by tensors; fetch the folder again")
    return [path.parent / name for name in sorted(set(names))]


def _tower_folders(folder: Path) -> list[Path]:
    """Return the folder itself, the folders of two towers below it, or nothing where it is not transformers'."""
    if (folder / CONFIG).is_file():
        return [folder]
    towers = [folder / name for name in PAIR]
    return towers if all((tower / CONFIG).is_file() for tower in towers) else []


def read_activation(folder: Path) -> str:
    """Return the activation that a folder's config names, or nothing. Raises UserError for one that open_clip lacks."""
    activations = set()
    for tower in _tower_folders(folder):
        path = tower / CONFIG
        config = read_mapping(path)
        sections = (config.get("text_config"), config.get("vision_config"))
        for section in [section for section in sections if isinstance(section, dict)] or [config]:
            name = section.get("hidden_act")
            if name is not None and str(name) not in ACTIVATIONS:
                raise UserError(f"{path}: hidden_act={str(name)[:40]!r}: must be one of {', '.join(ACTIVATIONS)}")
            activations.add(USUAL.get(str(config.get("model_type")), "") if name is None else ACTIVATIONS[str(name)])
    activations.discard("")
    if len(activations) > 1:
        raise UserError(
            f"{folder}: its towers have two activations, {' and '.join(sorted(activations))}; no open_clip model has"
        )
    return activations.pop() if activations else ""


def _with_ends(names: Mapping[str, str]) -> dict[str, str]:
    """Return the names of layers as those of their weight and bias."""
    return {f"{name}.{end}": f"{ours}.{end}" for name, ours in names.items() for end in ("weight", "bias")}


_LAYER = re.compile(r"(text|vision)_model\.encoder\.layers\.(\d{1,4})\.(.+)\.(weight|bias)")
_CLIP = {
    "vision_model.embeddings.class_embedding": "visual.class_embedding",
    "vision_model.embeddings.patch_embedding.weight": "visual.conv1.weight",
    "vision_model.embeddings.position_embedding.weight": "visual.positional_embedding",
    "text_model.embeddings.token_embedding.weight": "token_embedding.weight",
    "text_model.embeddings.position_embedding.weight": "positional_embedding",
} | _with_ends(
    {
        "vision_model.pre_layrnorm": "visual.ln_pre",
        "vision_model.post_layernorm": "visual.ln_post",
        "text_model.final_layer_norm": "ln_final",
    }
)
_CLIP_TRANSPOSED = {"visual_projection.weight": "visual.proj", "text_projection.weight": "text_projection"}
_SIGLIP = {
    "text_model.embeddings.token_embedding.weight": "text.token_embedding.weight",
    "text_model.embeddings.position_embedding.weight": "text.positional_embedding",
    "vision_model.head.probe": "visual.trunk.attn_pool.latent",
} | _with_ends(
    {
        "text_model.final_layer_norm": "text.ln_final",
        "text_model.head": "text.text_projection",
        "vision_model.embeddings.patch_embedding": "visual.trunk.patch_embed.proj",
        "vision_model.post_layernorm": "visual.trunk.norm",
        "vision_model.head.attention.out_proj": "visual.trunk.attn_pool.proj",
        "vision_model.head.layernorm": "visual.trunk.attn_pool.norm",
        "vision_model.head.mlp.fc1": "visual.trunk.attn_pool.mlp.fc1",
        "vision_model.head.mlp.fc2": "visual.trunk.attn_pool.mlp.fc2",
    }
)
_SIGLIP_POSITIONS = "vision_model.embeddings.position_embedding.weight"
_SIGLIP_POOL = "vision_model.head.attention.in_proj_"
_BLOCK = {"layer_norm1": "ln_1", "layer_norm2": "ln_2", "self_attn.out_proj": "attn.out_proj",
          "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj"}  # fmt: skip
_TIMM_BLOCK = {"layer_norm1": "norm1", "layer_norm2": "norm2", "self_attn.out_proj": "attn.proj",
               "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}  # fmt: skip
# Of SigLIP or not, and of a tower: where its blocks are, how their layers and their joined projections are called.
_TOWERS = {
    (False, "text"): ("transformer.resblocks", _BLOCK, "attn.in_proj_"),
    (False, "vision"): ("visual.transformer.resblocks", _BLOCK, "attn.in_proj_"),
    (True, "text"): ("text.transformer.resblocks", _BLOCK, "attn.in_proj_"),
    (True, "vision"): ("visual.trunk.blocks", _TIMM_BLOCK, "attn.qkv."),
}


def rename_tensors(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors by open_clip's names; a name that is not transformers' stays."""
    siglip = any(name.startswith("vision_model.head.") for name in state)
    renamed = {"logit_scale": torch.tensor(math.log(100.0))}
    projections = dict[str, dict[str, Tensor]]()
    for name, tensor in state.items():
        match = _LAYER.fullmatch(name)
        if name.endswith(".position_ids"):
            continue
        if match:
            blocks, layer_names, joined = _TOWERS[siglip, match[1]]
            block = f"{blocks}.{int(match[2])}"
            layer = match[3]
            end = match[4]
            if layer in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"):
                projections.setdefault(f"{block}.{joined}{end}", {})[layer[-6]] = tensor
            else:
                renamed[f"{block}.{layer_names[layer]}.{end}" if layer in layer_names else name] = tensor
        elif siglip and name == _SIGLIP_POSITIONS:
            renamed["visual.trunk.pos_embed"] = tensor[None]
        elif siglip and name.startswith(_SIGLIP_POOL) and tensor.ndim and len(tensor) > 2:
            # query, and key with value, as timm has them
            end = name.removeprefix(_SIGLIP_POOL)
            width = len(tensor) // 3
            renamed[f"visual.trunk.attn_pool.q.{end}"] = tensor[:width]
            renamed[f"visual.trunk.attn_pool.kv.{end}"] = tensor[width:]
        elif not siglip and name in _CLIP_TRANSPOSED:
            renamed[_CLIP_TRANSPOSED[name]] = tensor.T
        else:
            renamed[(_SIGLIP if siglip else _CLIP).get(name, name)] = tensor
    return renamed | _join_projections(projections)


def rename_to_transformers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return open_clip's tensors by transformers' names, the inverse of `rename_tensors`; `logit_bias` is left away.

    A name that neither CLIPModel nor SiglipModel has stays.
    """
    siglip = any(name.startswith("visual.trunk.attn_pool.") for name in state)
    names = {ours: theirs for theirs, ours in (_SIGLIP if siglip else _CLIP).items()}
    transposed = {ours: theirs for theirs, ours in _CLIP_TRANSPOSED.items()}
    renamed: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if name in transposed:
            renamed[transposed[name]] = tensor.T
        elif name == "logit_scale":
            renamed[name] = tensor.reshape(())
        elif name == "visual.trunk.pos_embed" and siglip:
            renamed[_SIGLIP_POSITIONS] = tensor[0]
        elif name.startswith("visual.trunk.attn_pool.q."):
            end = name.rpartition(".")[2]
            key_and_value = state[f"visual.trunk.attn_pool.kv.{end}"]
            renamed[f"{_SIGLIP_POOL}{end}"] = torch.cat([tensor, key_and_value])
        elif name != "logit_bias" and not name.startswith("visual.trunk.attn_pool.kv."):
            renamed |= _rename_layer(name, tensor, siglip) or {names.get(name, name): tensor}
    return {name: tensor.contiguous() for name, tensor in renamed.items()}


def _rename_layer(name: str, tensor: Tensor, siglip: bool) -> dict[str, Tensor]:
    """Return a tensor of a block by transformers' names; nothing for one that is of no block."""
    for tower in ("text", "vision"):
        blocks, layer_names, joined = _TOWERS[siglip, tower]
        match = re.fullmatch(rf"{re.escape(blocks)}\.(\d+)\.(.+\.|.+_)(weight|bias)", name)
        if match:
            layer = f"{tower}_model.encoder.layers.{match[1]}"
            if match[2] == joined:
                projections = zip("qkv", tensor.chunk(3), strict=True)
                return {f"{layer}.self_attn.{key}_proj.{match[3]}": part for key, part in projections}
            theirs = [theirs for theirs, ours in layer_names.items() if f"{ours}." == match[2]]
            return {f"{layer}.{theirs[0]}.{match[3]}": tensor} if theirs else {}
    return {}


def _join_projections(projections: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return query, key and value as one tensor each; three that do not fit together stay apart."""
    joined = {}
    for name, tensors in projections.items():
        shapes = {tensor.shape for tensor in tensors.values()}
        if set(tensors) == set("qkv") and len(shapes) == 1 and tensors["q"].ndim:
            joined[name] = torch.cat([tensors["q"], tensors["k"], tensors["v"]])
        else:
            for key, tensor in tensors.items():
                joined[f"{name}.{key}"] = tensor
    return joined

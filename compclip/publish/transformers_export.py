"""open_clip's CLIP in the formats of transformers (CLIPModel) and diffusers (its text encoder): files, not a library.

And the image tower alone, CLIP's or SigLIP's, as LLaVA takes it. What CLIPModel cannot express is said by
`find_obstacle`, what no image tower of transformers can by `find_tower_obstacle`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.files import write_atomic, write_json
from compclip.model.clip_model import QUICK, activation_name
from compclip.model.tokenizers import VOCABULARY, ClipTokenizer
from compclip.model.transformers_files import rename_to_transformers

if TYPE_CHECKING:
    from torch import Tensor

    from compclip.model.clip_model import ClipModel

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
PREPROCESSOR = "preprocessor_config.json"
# folders, as a pipeline of diffusers has them
TEXT_ENCODER = "text_encoder"
TOKENIZER = "tokenizer"
VISION_TOWER = "vision_tower"  # the folder of the image tower alone
# the last two ids
START = "<|startoftext|>"
END = "<|endoftext|>"
RESAMPLING = {"bilinear": 2, "bicubic": 3, "random": 3}  # Pillow's numbers; random is of training alone
# Where a text or a picture may differ before it comes to the towers.
DIFFERENCES = (
    "open_clip's tokenizer straightens curly quotation marks, repairs broken Unicode and reads HTML entities; "
    "transformers' does not: clean such texts first",
    "transformers scales pictures by torchvision where open_clip uses Pillow, as CLIPImageProcessorPil does: grey "
    "levels may differ by one",
)
# Keys of a tower's config that CLIPModel's has too, or that change no embedding.
EXPRESSED = {
    "vision_cfg": ("image_size", "layers", "width", "patch_size", "head_width", "mlp_ratio", "patch_dropout"),
    "text_cfg": ("context_length", "vocab_size", "width", "heads", "layers", "mlp_ratio"),
}


def find_obstacle(model: ClipModel) -> str:
    """Return what of a model transformers' CLIPModel and CLIPTokenizer cannot express; empty where they can."""
    from open_clip import CLIPTextCfg

    if model.head is not None:
        return f"a head ({model.head.kind}) that decides how pictures and texts are compared"
    obstacle = _find_clip_obstacle(model) or _find_unexpressed(model, "text_cfg", CLIPTextCfg)
    if obstacle:
        return obstacle
    if model.model_cfg.get("custom_text"):
        return "custom_text=True"
    return "" if isinstance(model.tokenizer, ClipTokenizer) else "a tokenizer that is not CLIP's"


def find_tower_obstacle(model: ClipModel) -> str:
    """Return what of an image tower CLIPVisionModel and SiglipVisionModel cannot express; empty where one can."""
    if "timm_model_name" not in model.model_cfg["vision_cfg"]:
        return _find_clip_obstacle(model)
    unknown_names = [name for name in _tower_tensors(model) if not name.startswith("vision_model.")]
    return f"vision_cfg.timm_model_name: its {unknown_names[0]}" if unknown_names else _find_resizing(model)


def _find_clip_obstacle(model: ClipModel) -> str:
    from open_clip import CLIPVisionCfg

    vision = model.model_cfg["vision_cfg"]
    for key in ("layers", "image_size", "patch_size"):  # a ResNet's layers, a picture that is no square
        if not isinstance(vision.get(key, 0), int):
            return f"vision_cfg.{key}={vision[key]}"
    return _find_unexpressed(model, "vision_cfg", CLIPVisionCfg) or _find_resizing(model)


def _find_unexpressed(model: ClipModel, section: str, kind: type) -> str:
    defaults = {field.name: field.default for field in fields(kind)}
    for key, value in model.model_cfg[section].items():
        if key not in EXPRESSED[section] and value != defaults.get(key):
            return f"{section}.{key}={value}"
    return ""


def _find_resizing(model: ClipModel) -> str:
    resize = model.preprocess_cfg.get("resize_mode", "shortest")
    return "" if resize in ("shortest", "squash") else f"preprocess_cfg.resize_mode={resize}"


def list_losses(model: ClipModel, obstacle: str) -> list[str]:
    """List what formats of others leave out of a model; `obstacle` as of `find_obstacle`."""
    if obstacle:
        losses = [f"transformers' CLIPModel cannot express {obstacle}: it was not written"]
        if model.head is not None:
            losses.append(
                "open_clip knows no heads: it loads the towers alone, whose cosines are other numbers, and no tower of "
                "several class tokens"
            )
        return losses
    if model.clip.logit_bias is None:
        return []
    bias = model.clip.logit_bias.item()
    return [f"CLIPModel has no logit_bias={bias:.4g}: its logits are without it, its embeddings are the same"]


# --- configs --------------------------------------------------------------------------------------------------


def make_clip_config(model_cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return CLIPModel's config.json of an open_clip config."""
    return {
        "architectures": ["CLIPModel"],
        "model_type": "clip",
        "projection_dim": model_cfg["embed_dim"],
        "text_config": _make_text_config(model_cfg),
        "vision_config": _make_vision_config(model_cfg),
        "torch_dtype": "float32",
    }


def _make_text_config(model_cfg: Mapping[str, Any]) -> dict[str, Any]:
    from open_clip import CLIPTextCfg

    text = CLIPTextCfg(**model_cfg["text_cfg"])
    tower = _make_tower_config(model_cfg, text)
    return tower | {
        "model_type": "clip_text_model",
        "vocab_size": text.vocab_size,
        "max_position_embeddings": text.context_length,
        "num_attention_heads": text.heads,
        "bos_token_id": VOCABULARY - 2,
        "eos_token_id": VOCABULARY - 1,
        "pad_token_id": VOCABULARY - 1,
    }


def _make_vision_config(model_cfg: Mapping[str, Any]) -> dict[str, Any]:
    from open_clip import CLIPVisionCfg

    vision = CLIPVisionCfg(**model_cfg["vision_cfg"])
    return _make_tower_config(model_cfg, vision) | {
        "model_type": "clip_vision_model",
        "image_size": vision.image_size,
        "patch_size": vision.patch_size,
        "num_attention_heads": vision.width // vision.head_width,
    }


def _make_tower_config(model_cfg: Mapping[str, Any], tower: Any) -> dict[str, Any]:
    return {
        "hidden_size": tower.width,
        "intermediate_size": int(tower.width * tower.mlp_ratio),
        "num_hidden_layers": tower.layers,
        "projection_dim": model_cfg["embed_dim"],
        "hidden_act": "quick_gelu" if activation_name(model_cfg) == QUICK else "gelu",
        "layer_norm_eps": 1e-5,
    }


def make_tower_config(model: ClipModel) -> dict[str, Any]:
    """Return the config.json of CLIPVisionModel or SiglipVisionModel."""
    config = {"torch_dtype": "float32"}
    if "timm_model_name" not in model.model_cfg["vision_cfg"]:
        return config | _make_vision_config(model.model_cfg) | {"architectures": ["CLIPVisionModel"]}
    trunk = model.clip.visual.trunk
    block = trunk.blocks[0]
    is_exact = getattr(block.mlp.act, "approximate", "tanh") == "none"
    return config | {
        "architectures": ["SiglipVisionModel"],
        "model_type": "siglip_vision_model",
        "image_size": trunk.patch_embed.img_size[0],
        "patch_size": trunk.patch_embed.patch_size[0],
        "hidden_size": trunk.embed_dim,
        "intermediate_size": block.mlp.fc1.out_features,
        "num_hidden_layers": len(trunk.blocks),
        "num_attention_heads": block.attn.num_heads,
        "hidden_act": "gelu" if is_exact else "gelu_pytorch_tanh",
        "layer_norm_eps": trunk.norm.eps,
    }


def make_preprocessor_config(preprocess_cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return CLIPImageProcessor's preprocessor_config.json of open_clip's preprocessing."""
    size = preprocess_cfg["size"]
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    squash = preprocess_cfg.get("resize_mode") == "squash"
    return {
        "image_processor_type": "CLIPImageProcessor",
        "do_resize": True,
        "size": {"height": height, "width": width} if squash else {"shortest_edge": min(height, width)},
        "resample": RESAMPLING[preprocess_cfg.get("interpolation", "bicubic")],
        "do_center_crop": not squash,
        "crop_size": {"height": height, "width": width},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(preprocess_cfg["mean"]),
        "image_std": list(preprocess_cfg["std"]),
        "do_convert_rgb": True,
    }


# --- files ----------------------------------------------------------------------------------------------------


def write_clip_model(model: ClipModel, folder: Path) -> None:
    """Write CLIPModel, its tokenizer and preprocessing, and the text encoder with a tokenizer as diffusers has them."""
    from safetensors.torch import save

    tensors = rename_to_transformers(model.clip.state_dict())
    header = {"format": "pt"}
    config = make_clip_config(model.model_cfg)
    write_atomic(folder / WEIGHTS, save(tensors, header))
    write_json(folder / CONFIG, config)
    write_json(folder / PREPROCESSOR, make_preprocessor_config(model.preprocess_cfg))
    text_tensors = {name: tensor for name, tensor in tensors.items() if name.startswith("text_model.")}
    write_atomic(folder / TEXT_ENCODER / WEIGHTS, save(text_tensors, header))
    text_config = config["text_config"] | {"architectures": ["CLIPTextModel"], "torch_dtype": "float32"}
    write_json(folder / TEXT_ENCODER / CONFIG, text_config)
    for tokenizer_folder in (folder, folder / TOKENIZER):
        write_tokenizer(tokenizer_folder, config["text_config"]["max_position_embeddings"])


def write_vision_tower(model: ClipModel, folder: Path) -> None:
    """Write the image tower alone as CLIPVisionModel or SiglipVisionModel, with its preprocessing."""
    from safetensors.torch import save

    config = make_tower_config(model)
    processor = make_preprocessor_config(model.preprocess_cfg)
    if config["model_type"] == "siglip_vision_model":
        processor["image_processor_type"] = "SiglipImageProcessor"
    write_atomic(folder / VISION_TOWER / WEIGHTS, save(_tower_tensors(model), {"format": "pt"}))
    write_json(folder / VISION_TOWER / CONFIG, config)
    write_json(folder / VISION_TOWER / PREPROCESSOR, processor)


def _tower_tensors(model: ClipModel) -> dict[str, Tensor]:
    state = model.clip.state_dict()
    state.pop("visual.proj", None)
    return rename_to_transformers({name: state[name] for name in state if name.startswith("visual.")})


def write_tokenizer(folder: Path, context_length: int) -> None:
    """Write CLIP's byte-pair code as transformers' CLIPTokenizer reads it."""
    import open_clip

    code = open_clip.SimpleTokenizer()
    words = sorted(code.encoder, key=code.encoder.__getitem__)
    vocabulary = {word: number for number, word in enumerate([*words[:-2], START, END])}
    merges = map(" ".join, sorted(code.bpe_ranks, key=code.bpe_ranks.__getitem__))
    special = {"bos_token": START, "eos_token": END, "pad_token": END, "unk_token": END}
    write_json(folder / "vocab.json", vocabulary)
    write_atomic(folder / "merges.txt", "\n".join(["#version: 0.2", *merges, ""]))
    write_json(folder / "special_tokens_map.json", special)
    options = {"tokenizer_class": "CLIPTokenizer", "model_max_length": context_length, "do_lower_case": True}
    write_json(folder / "tokenizer_config.json", options | special)

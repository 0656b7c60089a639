"""How a run trains its towers where that changed once, for its key: older runs of such towers and options are stale.

Other runs have nothing of this in their keys. What changed is in CHANGELOG.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compclip.base.files import read_mapping

CONFIG = "open_clip_config.json"
LARGEST_HEAD = 1 << 24  # bytes of a safetensors file's head that are searched
# Image towers of timm that draw without an option of their config: stochastic depth, a dropout of positions.
RANDOM = re.compile("swin|relpos")
DRAWS = ("timm_drop", "timm_drop_path", "patch_dropout")


def list_versions(backbone: Path, train: Mapping[str, Any]) -> dict[str, str]:
    """Return what the key of a run has of its towers, by the options of its training.

    An older run of a backbone with batch norms may have been on several processes, of which its key says nothing.
    """
    versions = {}
    heads = list(map(_read_head, backbone.glob("*.safetensors")))
    if any(b".running_mean" in head for head in heads):
        versions["batch norms"] = "those of frozen parts stay"
    config = backbone / CONFIG
    model_cfg = read_mapping(config).get("model_cfg", {}) if config.is_file() else {}
    text_is_random = bool(model_cfg.get("text_cfg", {}).get("hf_model_name"))
    image_is_random = _draws(model_cfg.get("vision_cfg", {}))
    trainable, is_adapted = train.get("trainable"), bool(train.get("lora"))
    if (
        image_is_random
        and (is_adapted or trainable in ("text", "none"))
        or (text_is_random and (is_adapted or trainable in ("image", "none")))
    ):
        versions["dropout"] = "none in frozen parts"
    if text_is_random and train.get("text_layers"):
        versions["text_layers"] = "layers alone are frozen, and drop nothing out"
    if train.get("decayed") == "all_but_norms" and any(b".SelfAttention." in head for head in heads):
        versions["decayed"] = "no norm of T5"
    return versions


def _draws(vision_cfg: Mapping[str, Any]) -> bool:
    """Return whether an image tower drops anything out while it trains."""
    name = vision_cfg.get("timm_model_name") or ""
    return any(map(vision_cfg.get, DRAWS)) or bool(RANDOM.search(name))


def _read_head(weights: Path) -> bytes:
    """Return the head of a file of weights, which names its tensors."""
    with open(weights, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        return file.read(min(size, LARGEST_HEAD))

"""Compute a lower bound of a training's memory on a CPU from its model's config, for a warning of `config check`.

A training on a CPU that needs too much memory does not fail: it swaps, for days. The bound counts the weights with the
two moments of AdamW, and the activations that the blocks of a ViT and of a text tower keep for a picture and a caption.
It does not count further texts of rules, nor towers of other kinds. For plain fine-tuning of a ViT-B/32 with 64
pictures it is 5.5 GiB; `config cost` computes 5.6.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compclip.base import messages
from compclip.config.cell import PRETRAINED
from compclip.config.grid import Run

FLOAT = 4  # bytes
TRAINED_WEIGHT = 3 * FLOAT  # a weight and AdamW's two moments; gradients come while activations are freed
BLOCK_WIDTHS = 17  # numbers that a block keeps per position, in widths: inputs, queries, keys, values, attention, MLP
CAPTION_POSITIONS = 32  # assumed length of a caption; longer ones are rare
LIMIT = Path("/sys/fs/cgroup/memory.max")  # the limit of a container or a job
GPUS = "nvidia[0-9]*"  # device files
GIB = 1 << 30


def warn_of_memory(runs: Sequence[Run]) -> None:
    """Warn if the largest run needs more memory than this machine has; do nothing if there is a GPU to train on."""
    if any(Path("/dev").glob(GPUS)):
        return
    needs = {run.cell.name: least_bytes(run) for run in runs if run.cell.method != PRETRAINED}
    name = max(needs, key=lambda cell: needs[cell], default="")
    memory = machine_memory()
    if name and needs[name] > memory:
        messages.warn(
            f"{name}: needs at least {needs[name] / GIB:.1f} GiB of memory on a CPU, but this machine has "
            f"{memory / GIB:.1f} and would swap; set a smaller train.micro_batch, or `compclip repro --on` a cluster"
        )


def machine_memory() -> int:
    """Return the memory of this machine, or of its container or job, in bytes."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = LIMIT.read_text().strip() if LIMIT.is_file() else ""
    return min(memory, int(limit)) if limit.isdigit() else memory


def least_bytes(run: Run) -> int:
    """Return a lower bound of the bytes that a run's training needs."""
    config = _find_config(run.backbone.model)
    train = run.train
    pictures = train.micro_batch or train.batch_size
    total = 0
    for tower in ("image", "text"):
        weights, kept = _count_tower(config, tower)
        is_trained = train.trainable in ("all", tower)
        total += weights * (TRAINED_WEIGHT if is_trained and not train.lora else FLOAT)
        if is_trained and not train.checkpoint_activations:
            total += FLOAT * pictures * kept
    return total


def _find_config(model: str) -> Mapping[str, Any]:
    """Return a model's config, from a file or from open_clip; empty if it is in neither."""
    path = Path(model)
    package = importlib.util.find_spec("open_clip")
    if path.suffix != ".json" and package and package.origin:
        path = Path(package.origin).parent / "model_configs" / f"{path.name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _count_tower(config: Mapping[str, Any], tower: str) -> tuple[int, int]:
    """Return how many weights a tower's blocks and embeddings have, and how many numbers it keeps for one input."""
    section = config.get({"image": "vision_cfg", "text": "text_cfg"}[tower], {})
    if tower == "image":
        patch = section.get("patch_size")
        if not patch or not isinstance(section.get("layers"), int):
            return 0, 0  # a ResNet, or one of timm's
        width = section.get("width", 768)
        positions = (section.get("image_size", 224) // patch) ** 2 + 1
        inputs = 3 * patch**2 * width
    elif section.get("hf_model_name"):
        return 0, 0  # its sizes are in a config of transformers
    else:
        width = section.get("width", 512)
        positions = section.get("context_length", 77)
        inputs = section.get("vocab_size", 49408) * width
    layers = section.get("layers", 12)
    return inputs + positions * width + layers * 12 * width**2, layers * BLOCK_WIDTHS * positions * width


def count_weights(model: str) -> int:
    """Return how many weights a model's blocks and embeddings have; 0 for a tower of another kind."""
    return sum(_count_tower(_find_config(model), tower)[0] for tower in ("image", "text"))


def count_products(model: str) -> tuple[float, float]:
    """Return the FLOP of encoding a picture, and of encoding a caption, 2 per product; 0 for towers of other kinds.

    A batch of texts is cut to its longest text, so a caption is counted with `CAPTION_POSITIONS` positions.
    """
    config = _find_config(model)
    image = config.get("vision_cfg", {})
    text = config.get("text_cfg", {})
    if not all(_count_tower(config, tower)[0] for tower in ("image", "text")):
        return 0.0, 0.0
    positions = (image.get("image_size", 224) // image["patch_size"]) ** 2 + 1
    text_positions = min(CAPTION_POSITIONS, text.get("context_length", 77))
    blocks = 12 * image.get("layers", 12) * image.get("width", 768) ** 2
    text_blocks = 12 * text.get("layers", 12) * text.get("width", 512) ** 2
    return 2.0 * positions * blocks, 2.0 * text_positions * text_blocks

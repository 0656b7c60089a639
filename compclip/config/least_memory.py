"""The least memory that a training takes on a CPU, by its model's config alone: what `compclip config check` warns of.

Where memory is short a CPU's training does not fail: it swaps, for days. The bound counts the weights with their two
moments, and what the blocks of a ViT or a text tower keep of a caption and a picture. What rules add to these, and a
tower of another kind, is not in it. A ViT-B/32 with 64 pictures of plain fine-tuning: 5.5 GiB; `config cost` says 5.6.
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
TRAINED_WEIGHT = 3 * FLOAT  # a weight and AdamW's two moments; slopes come as activations go
BLOCK_WIDTHS = 17  # that a block keeps of a position: its inputs, queries, keys, values, attention, the inner layers
CAPTION_POSITIONS = 32  # of a text: longer ones are rare among captions
LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container or a job
GPUS = "nvidia[0-9]*"  # device files
GIB = 1 << 30


def warn_of_memory(runs: Sequence[Run]) -> None:
    """Warn of the run that needs most where this machine has less, and no GPU that would train it."""
    if any(Path("/dev").glob(GPUS)):
        return
    needs = {run.cell.name: least_bytes(run) for run in runs if run.cell.method != PRETRAINED}
    name = max(needs, key=lambda cell: needs[cell], default="")
    memory = machine_memory()
    if name and needs[name] > memory:
        messages.warn(
            f"{name}: takes {needs[name] / GIB:.1f} GiB or more on a CPU, and this machine has {memory / GIB:.1f}: "
            "it would swap; set a smaller train.micro_batch, or `compclip repro --on` a cluster"
        )


def machine_memory() -> int:
    """Return the bytes of memory that this machine, or the container or job, has."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = LIMIT.read_text().strip() if LIMIT.is_file() else ""
    return min(memory, int(limit)) if limit.isdigit() else memory


def least_bytes(run: Run) -> int:
    """Return how many bytes a run's training takes at least."""
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
    """Return a model's config: a file's, or one of open_clip's; empty where it is neither."""
    path = Path(model)
    package = importlib.util.find_spec("open_clip")
    if path.suffix != ".json" and package and package.origin:
        path = Path(package.origin).parent / "model_configs" / f"{path.name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _count_tower(config: Mapping[str, Any], tower: str) -> tuple[int, int]:
    """Return the weights of a tower's blocks and words, and the numbers that it keeps of one input."""
    section = config.get({"image": "vision_cfg", "text": "text_cfg"}[tower], {})
    if tower == "image":
        patch = section.get("patch_size")
        if not patch or not isinstance(section.get("layers"), int):
            return 0, 0  # a ResNet, or one of timm's
        width = section.get("width", 768)
        positions = (section.get("image_size", 224) // patch) ** 2 + 1
        inputs = 3 * patch**2 * width
    elif section.get("hf_model_name"):
        return 0, 0  # its numbers are in a config of transformers
    else:
        width = section.get("width", 512)
        positions = section.get("context_length", 77)
        inputs = section.get("vocab_size", 49408) * width
    layers = section.get("layers", 12)
    return inputs + positions * width + layers * 12 * width**2, layers * BLOCK_WIDTHS * positions * width


def count_weights(model: str) -> int:
    """Return the weights of a model's blocks and words; 0 of a model that is not described here."""
    return sum(_count_tower(_find_config(model), tower)[0] for tower in ("image", "text"))


def count_products(model: str) -> tuple[float, float]:
    """Return the products, as 2 FLOP each, of encoding a picture and a caption; 0 of a model that is not described.

    Texts are cut to the longest of a batch: of a caption `CAPTION_POSITIONS` are counted.
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

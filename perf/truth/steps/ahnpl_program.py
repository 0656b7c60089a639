"""The released program of ahnpl, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from step_programs import Step, load, replace_absent, take_step, use_float64
from torch import Tensor

KINDS = ("relation", "adj_swap", "adj", "noun", "verb")  # of negatives, by their names in its files
SWAPPED = KINDS.index("adj_swap")


def run(folder: Path, shared_inputs: Step) -> Step:
    """nynu-BDAI/AHNPL: the second of two steps on one batch, by margins of the first.

    Without exchanged adjectives, which are not built, and without --positive-margin-loss: see our method.
    """
    replace_absent("pycocotools", "pycocotools.coco", "datasets", "open_clip.timm_model")
    from open_clip.loss import Clip_DALoss
    from open_clip.model import CLIP
    from open_clip.tokenizer import tokenize
    from open_clip.transform import image_transform
    from training.data import HardNegative_Collate, NpyDataset

    lines = []
    for i, (path, caption) in enumerate(zip(shared_inputs["paths"], shared_inputs["captions"], strict=True)):
        fourth = shared_inputs["captions"][(i + 1) % len(shared_inputs["captions"])]
        texts = list(shared_inputs["negatives"][i]) + [fourth]
        texts.insert(SWAPPED, "")
        named = {f"{kind}_aug_caption": text for kind, text in zip(KINDS, texts, strict=True)}
        lines.append({"image_path": path, "caption": caption, "valid_caption": [1] * 6, **named})
    file = Path(shared_inputs["work"]) / "ahnpl.npy"
    np.save(file, np.array(lines, dtype=object))
    transform = image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=True)
    data = NpyDataset(str(file), transform, tokenizer=tokenize)
    there = [k for k in range(len(KINDS) + 1) if k != 1 + SWAPPED]
    rows = [(picture, texts[there], mask[there]) for picture, texts, mask in (data[i] for i in range(len(data)))]
    images, texts, valid = HardNegative_Collate()(rows)
    model = use_float64(load(CLIP(**shared_inputs["model"]), shared_inputs["state"]))
    weights = {"neg_loss_weight": 0.2, "mar_loss_weight": 0.2}  # scripts/run.sh
    loss = Clip_DALoss(mar_loss=True, neg_loss=True, hardnegative=True, **weights)

    def compute() -> dict[str, Tensor]:
        inputs = (*model(images.double(), texts)[:2], valid[:, 1:], model.logit_scale.exp())
        thresholds = torch.clamp(loss(*inputs, 0.0)[1], 0, 10)
        return {"total": loss(*inputs, thresholds)[0]}

    return take_step(model, compute, images, texts)

"""The released program of ce_clip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from step_programs import Step, load, replace_absent, take_step, use_float64
from torch import Tensor

HALF = 2  # pictures of each process


def run(folder: Path, shared_inputs: Step) -> Step:
    """lezhang7/Enhance-FineGrained at 2d07821: the second step on one batch, half of it on each of two processes.

    There the intra-modal term's target is the picture; its single process has no negatives in the contrast.
    """
    replace_absent("pycocotools", "pycocotools.coco", "datasets")
    import open_clip.loss as loss_module
    from open_clip.model import CLIP
    from open_clip.tokenizer import tokenize
    from open_clip.transform import image_transform
    from training.data import HardNegative_Collate, NpyDataset

    kinds = ("relation", "adj", "noun", "verb")
    samples = []
    columns = (shared_inputs[key] for key in ("paths", "captions", "negatives", "further"))
    for path, caption, negatives, further in zip(*columns, strict=True):
        texts = zip(kinds, (*negatives, further[0]), strict=True)
        sample = {"image_path": path, "caption": caption, "valid_caption": [1] * 5}
        samples.append(sample | {f"{kind}_aug_caption": text for kind, text in texts})
    file = Path(shared_inputs["work"]) / "ce_clip.npy"
    np.save(file, np.array(samples, dtype=object))
    transform = image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=True)
    data = NpyDataset(str(file), transform, tokenizer=tokenize, split="train")
    starts = range(0, len(data), HALF)
    batches = [HardNegative_Collate()([data[i] for i in range(start, start + HALF)]) for start in starts]
    pictures = torch.cat([images for images, _, _ in batches])
    valid = torch.cat([mask[:, 1:] for _, _, mask in batches])  # training/train.py:125
    model = use_float64(load(CLIP(**shared_inputs["model"]), shared_inputs["state"]))
    weights = {"atr_loss_weight": 0.2, "tec_loss_weight": 0.3}
    loss = loss_module.Clip_DALoss(world_size=2, hardnegative=True, atr_loss=True, tec_loss=True, **weights)

    def compute_loss(thresholds: Any) -> tuple[Tensor, Tensor]:
        outputs = [model(images.double(), texts) for images, texts, _ in batches]
        image_BD, text_AD = (torch.cat([output[n] for output in outputs]) for n in (0, 1))
        loss_module.gather_features_da = lambda *_: (image_BD, text_AD, valid)
        total, thresholds, *_ = loss(outputs[0][0], outputs[0][1], valid[:HALF], outputs[0][2], thresholds)
        return total, thresholds.clamp(0, 10)

    def compute() -> dict[str, Tensor]:
        return {"total": compute_loss(compute_loss(0.0)[1])[0]}

    halves = [texts for _, texts, _ in batches]
    tokens = torch.cat([*(text[:HALF] for text in halves), *(text[HALF:] for text in halves)])
    return take_step(model, compute, pictures, tokens)

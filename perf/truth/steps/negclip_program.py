"""The released program of negclip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from pathlib import Path

import torch
from step_programs import Step, load, take_step, use_float64


def run(folder: Path, shared_inputs: Step) -> Step:
    """vinid/neg_clip: each row brings one near picture, with a caption and a negative of its own."""
    from open_clip.loss import ClipLoss
    from open_clip.model import CLIP
    from open_clip.transform import image_transform
    from training.data import CsvDataset

    file = Path(shared_inputs["work"]) / "negclip.csv"
    lines = ["filepath\ttitle\tneg_caption\tneg_image"]
    for picture, caption, negatives, near in zip(
        *(shared_inputs[key] for key in ("paths", "captions", "negatives", "near")), strict=True
    ):
        lines.append(f"{picture}\t{caption}\t{negatives[:1]!r}\t[{near}]")
    file.write_text("\n".join(lines))
    transform = image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=True)
    data = CsvDataset(str(file), transform, "filepath", "title", "neg_caption")
    rows = torch.utils.data.default_collate([data[i] for i in range(len(data))])
    images, new_images, texts, new_texts, hard_captions, new_hard = rows
    images = torch.cat([images, new_images])
    texts = torch.cat([texts, new_texts, hard_captions, new_hard])  # training/train.py:81-85
    model = use_float64(load(CLIP(**shared_inputs["model"]), shared_inputs["state"]))
    return take_step(model, lambda: {"negclip": ClipLoss()(*model(images.double(), texts))}, images, texts)

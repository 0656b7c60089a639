"""The released program of triplet_clip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from step_programs import Step, load, take_step, use_float64
from torch import Tensor


def run(folder: Path, shared_inputs: Step) -> Step:
    """tripletclip/TripletCLIP, src/openclip: two passes, of captions and of negatives with their pictures."""
    sys.path.insert(0, str(folder / "src/openclip/src"))
    import data as data_module
    import open_clip
    from loss import tripletclip_loss

    def open_picture(number: int) -> object:
        return data_module.image_handler(Path(shared_inputs["paths"][number]).read_bytes())

    rows = [
        (open_picture(i), caption, open_picture(shared_inputs["near"][i]), negatives[0], str(i))
        for i, (caption, negatives) in enumerate(
            zip(shared_inputs["captions"], shared_inputs["negatives"], strict=True)
        )
    ]
    side = shared_inputs["model"]["vision_cfg"]["image_size"]
    data = data_module.TripletClipData.__new__(data_module.TripletClipData)  # its samples come out of tars
    data.dataset_iter = iter(rows)
    # main.py:36-42: the last of model, training and evaluation transform
    data.transforms = open_clip.image_transform(side, is_train=False)
    data.tokenizer = open_clip.get_tokenizer("ViT-B-32")
    images, neg_images, texts, neg_texts = data_module.collate_fn([data[i] for i in range(len(rows))])
    model = use_float64(load(open_clip.CLIP(**shared_inputs["model"]), shared_inputs["state"]))

    def compute() -> dict[str, Tensor]:
        image_BD, text_BD, scale = model(images.double(), texts)
        neg_image_BD, neg_text_BD, _ = model(neg_images.double(), neg_texts)
        return {"total": tripletclip_loss(image_BD, text_BD, neg_image_BD, neg_text_BD, scale)[0]}

    return take_step(model, compute, torch.cat([images, neg_images]), torch.cat([texts, neg_texts]))

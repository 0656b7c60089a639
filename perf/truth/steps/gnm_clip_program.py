"""The released program of gnm_clip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from step_programs import Step, load, take_step, use_float64
from torch import Tensor, nn


def run(folder: Path, shared_inputs: Step) -> Step:
    """ugorsahin/Generative-Negative-Mining: two objects with two variations, a plain pair behind each; also all texts.

    Towers, tokenizer and transform of OpenAI's package are open_clip's. Folder and file of plain pairs are given the
    wrong way round, as its own order of arguments wants them. The loss is in its script, so it is written again.
    """
    import open_clip

    texts: list[str] = []
    package = ModuleType("clip")

    def tokenize(captions: list[str]) -> Tensor:
        texts.extend(captions)
        return open_clip.tokenize(captions)

    package.tokenize = tokenize  # type: ignore[attr-defined]
    sys.modules["clip"] = package
    sys.path.insert(0, str(folder / "training"))
    from negative_mining_dataset import CombinedDataset, collate

    np.random.seed(0)
    work = Path(shared_inputs["work"])
    variations, plain = [], []
    for i, (path, caption) in enumerate(zip(shared_inputs["paths"], shared_inputs["captions"], strict=True)):
        name, names = Path(path).name, {"origin_name": "kitchen", "item": ("cat", "dog")[i // 2]}
        scores = {"itm_score": [0.5], "iva_score": 20}
        variations.append({"source": name, "captions": [caption], "name": name} | scores | names)
        plain.append({"image_id": i, "image": name, "captions": [caption]})
    (work / "variations.json").write_text(json.dumps(variations))
    (work / "plain.json").write_text(json.dumps(plain))
    data = CombinedDataset(
        open_clip.image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=False),
        Path(shared_inputs["paths"][0]).parent,
        variation_ann=work / "variations.json",
        coco_image_per_item=1,
        group_keys=["origin_name", "item"],
        sample_by_score=True,
        seed_num=0,
        coco_dataset=str(Path(shared_inputs["paths"][0]).parent),
        coco_image_folder=str(work / "plain.json"),
    )
    images, tokens, _ = collate([data[i] for i in range(len(data))])
    model = use_float64(load(open_clip.CLIP(**shared_inputs["model"]), shared_inputs["state"]))

    def compute() -> dict[str, Tensor]:
        image_BD, text_BD, scale = model(images.double(), tokens)
        logits_im, truth = scale * image_BD @ text_BD.T, torch.arange(len(images))
        loss = nn.CrossEntropyLoss()  # training/train.py:80-83
        return {"clip": (loss(logits_im, truth) + loss(logits_im.T, truth)) / 2}

    return take_step(model, compute, images, tokens) | {"texts": texts}

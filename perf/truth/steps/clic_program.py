"""The released program of clic, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace

import torch
from step_programs import Step, load, take_step, use_float64
from torch import Tensor, nn


def run(folder: Path, shared_inputs: Step) -> Step:
    """AmitPeleg/CLIC: a step on composites, four captions and a negative of each; also all texts."""
    import spacy

    spacy.load = lambda name: None  # type: ignore[assignment, misc]  # it tags words for negatives, which are given
    import data_loading
    import losses
    import models
    import open_clip

    texts: list[str] = []

    def tokenize(text: str) -> Tensor:
        texts.append(text)
        return open_clip.tokenize(text).squeeze()

    data_loading.get_hard_negative = lambda a, b: data_loading.get_p1_p2(f"no {a}", b)[0]
    file = Path(shared_inputs["work"]) / "clic.csv"
    with open(file, "w", newline="") as lines:
        rows = zip(shared_inputs["paths"], shared_inputs["captions"], shared_inputs["further"], strict=True)
        csv.writer(lines).writerows([path, caption, *further] for path, caption, further in rows)
    flags = {"hard_negatives": True, "shuffled_positive": True, "additional_positives": 2}  # trigger_train.sh
    model = open_clip.CLIP(**shared_inputs["model"])
    transform = open_clip.image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=False)
    data = data_loading.CombineCsvDataset(file, transform, tokenizer=tokenize, clip_loss_iterate=True, **flags)
    inputs = torch.utils.data.default_collate([data[i] for i in range(len(data))])[:-2]
    pictures, tokens = inputs[0], torch.cat(inputs[1:])  # train.py:219-227
    wrapper = models.CLIP.__new__(models.CLIP)
    nn.Module.__init__(wrapper)
    wrapper.model, wrapper.args = load(model, shared_inputs["state"]), SimpleNamespace(distributed=False)
    use_float64(wrapper)
    losses.general_utils = SimpleNamespace(get_rank=lambda: 0)
    weights = {"cont": 0.5, "sneg": 0.5, "uni": 1.0, "hard_negatives_separate": True, "uni_modal_loss": True}
    criterion = losses.CLIPLoss(SimpleNamespace(**flags, **weights))
    step = take_step(model, lambda: {"total": criterion(wrapper(pictures.double(), tokens))["combined_loss"]},
                     pictures, tokens)  # fmt: skip
    return step | {"texts": texts}

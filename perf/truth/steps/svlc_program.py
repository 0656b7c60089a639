"""The released program of svlc, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import torch
from step_programs import Step, load, take_step, use_float64
from torch import Tensor


def run(folder: Path, shared_inputs: Step) -> Step:
    """SivanDoveh/TSVLC: a negative of each caption by rules, in the contrast and in a term of its own."""
    import training.data as data_module
    from open_clip import tokenize
    from open_clip.loss import ClipLoss
    from open_clip.model import CLIP
    from open_clip.transform import image_transform

    negative_of = {
        texts[0]: texts[1][:1] for texts in zip(shared_inputs["captions"], shared_inputs["negatives"], strict=True)
    }
    maker = SimpleNamespace(create_negs=lambda caption: tokenize(list(negative_of[caption])))
    data_module.choose_negs_function = lambda args: maker
    flags = {"vl_negs": True, "vl_pos": False, "save_data": False, "num_negs": 1, "neg_w": 1, "device": "cpu"}
    more = dict.fromkeys(("no_neg_in_contrastive", "symmetric", "kl_pos", "common_batch_pos"), False)
    args = SimpleNamespace(**flags, **more)
    file = Path(shared_inputs["work"]) / "svlc.csv"
    lines = [
        f"{picture}\t{caption}"
        for picture, caption in zip(shared_inputs["paths"], shared_inputs["captions"], strict=True)
    ]
    file.write_text("\n".join(["filepath\ttitle", *lines]))
    transform = image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=True)
    data = data_module.CsvDataset(str(file), transform, "filepath", "title", args=args)
    images, texts, extra = torch.utils.data.default_collate([data[i] for i in range(len(data))])
    negatives = extra["negatives"].view(-1, texts.shape[-1])
    tokens = torch.cat([texts, negatives])  # training/train.py:66-76: all are there
    model = use_float64(load(CLIP(**shared_inputs["model"]), shared_inputs["state"]))

    def compute() -> dict[str, Tensor]:
        return {"total": ClipLoss(args=args)(*model(images.double(), tokens), list(range(len(texts))))[0]}

    return take_step(model, compute, images, tokens)

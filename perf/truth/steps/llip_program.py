"""The released program of llip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import torch
from step_programs import Step, load, rename, replace_absent, take_step, use_float64
from torch import Tensor, nn
from torch.nn import functional as F

NAMES = {"k_proj": "heads.key", "v_proj": "heads.value", "q_proj": "heads.query", "pred.out_proj": "heads.out"}
HEADS = 8


def run(folder: Path, shared_inputs: Step) -> Step:
    """facebookresearch/Llip: pictures by their class tokens, which texts mix; its queries are made of unit vectors."""
    replace_absent("evals", "evals.main_distributed", "clipeval", "clipeval.datasets")
    from llip.open_clip.loss import CMPLoss
    from llip.open_clip.model import CLIP, CMP
    from llip.open_clip.transform import image_transform
    from llip.training.data import CsvDataset
    from llip.training.train import to_device

    file = Path(shared_inputs["work"]) / "llip.csv"
    lines = [
        f"{picture}\t{caption}"
        for picture, caption in zip(shared_inputs["paths"], shared_inputs["captions"], strict=True)
    ]
    file.write_text("\n".join(["filepath\ttitle", *lines]))
    config = dict(shared_inputs["model"])
    transform = image_transform(config["vision_cfg"]["image_size"], is_train=True, inmem=True)
    data = CsvDataset(str(file), transform, "filepath", "title")
    batch = torch.utils.data.default_collate([data[i] for i in range(len(data))])
    pictures, tokens = to_device(batch, torch.device("cpu"), SimpleNamespace(inmem=True, precision="fp32"))
    config["vision_cfg"] = config["vision_cfg"] | {"ncls": len(shared_inputs["state"]["heads.key"])}
    model = CMP(num_heads=HEADS, init_logit_bias=-10.0, **config)
    model.q_proj = nn.Parameter(torch.zeros_like(shared_inputs["state"]["heads.query"]))
    ours = {name: value for name, value in shared_inputs["state"].items() if name != "visual.first_proj"}
    use_float64(load(model, rename(ours, {new: old for old, new in NAMES.items()})))

    def encode_text(text_BL: Tensor) -> tuple[Tensor, Tensor]:
        text_BD = CLIP.encode_text(model, text_BL)
        query_BD = F.normalize(text_BD, dim=-1) * text_BD.shape[1] ** 0.5 @ model.q_proj
        return query_BD.unflatten(1, (HEADS, -1)), text_BD

    model.encode_text = encode_text

    def compute() -> dict[str, Tensor]:
        (key, value), (query, text_BD), mixer, scale, bias = model(pictures.double(), tokens)
        text_BD = F.normalize(text_BD, dim=-1)  # llip/training/train.py:160
        return {"sigmoid": CMPLoss()(key, query, value, text_BD, mixer, 5, scale, bias)}

    step = take_step(model, compute, pictures, tokens)
    return step | {"slopes": rename(step["slopes"], NAMES)}

"""The released program of flair, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from PIL import Image
from step_programs import Step, load, rename, take_step, use_float64
from torch import Tensor

NAMES = {
    "image_post.proj": "visual.proj",
    "text_post.proj": "text_projection",
    "visual_proj.ln_q.": "heads.norm_query.",
    "visual_proj.ln_k.": "heads.norm_key.",
    "visual_proj.ln_v.": "heads.norm_value.",
    "visual_proj.attn.": "heads.attention.",
}


def run(folder: Path, shared_inputs: Step) -> Step:
    """ExplainableML/flair: eight texts of each picture by its rule; the other pictures' texts go round; also all texts.

    Queries have no constant in their norm, since ours are made of unit vectors.
    """
    import open_clip
    from flair.data import sample_dict
    from flair.loss import FlairLoss
    from flair.model import FLAIR

    texts: list[str] = []

    def tokenize(sampled_texts: list[str]) -> Tensor:
        texts.extend(sampled_texts)
        return open_clip.tokenize(sampled_texts)

    transform = open_clip.image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=True)
    pictures = torch.stack([transform(Image.open(path)) for path in shared_inputs["paths"]])
    tokens = torch.stack(
        [sample_dict(list_captions(shared_inputs, i), k=8, tokenizer=tokenize) for i in range(len(pictures))]
    )
    model = FLAIR(**shared_inputs["model"], init_logit_bias=-10.0)
    use_float64(load(model, rename(shared_inputs["state"], {ours: theirs for theirs, ours in NAMES.items()})))
    model.visual_proj.ln_q.eps = 0.0
    loss, sampled_texts = FlairLoss(num_cap_per_img=8, added_mps_loss=True), torch.randint

    def go_round(low: int, high: int, size: tuple[int, int], **_: Any) -> Tensor:
        return torch.tensor([[(i + j) % high for j in range(size[0]) if j != i] for i in range(size[0])])

    def compute() -> dict[str, Tensor]:
        torch.randint = go_round  # type: ignore[assignment]  # of the other pictures' texts
        terms = loss(**model(pictures.double(), tokens), output_dict=True)
        torch.randint = sampled_texts
        return {"total": terms["contrastive_loss"]}

    step = take_step(model, compute, pictures, tokens.flatten(0, 1))
    return step | {"texts": texts, "slopes": rename(step["slopes"], NAMES)}


def list_captions(shared_inputs: Step, i: int) -> dict[str, list[str]]:
    """Return what is said of a picture, by the names of its lists."""
    names = ("raw_caption", "shortIB_captions", "longIB_captions", "shortSV_captions", "longSV_captions",
             "shortLLA_captions", "longLLA_captions")  # fmt: skip
    all_texts = (shared_inputs["captions"][i], *shared_inputs["negatives"][i], *shared_inputs["further"][i])
    return {name: [all_texts[k]] if k < len(all_texts) else [] for k, name in enumerate(names)}

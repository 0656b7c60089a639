"""The released program of con_clip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from step_programs import Step, load, take_step, use_float64
from torch import Tensor, nn


def run(folder: Path, shared_inputs: Step) -> Step:
    """jaisidhsingh/CoN-CLIP, with openai/CLIP cloned into its folder CLIP: pictures, distractors, texts, negations.

    Its `get_finetuning_dataset` gives its data sets two arguments of which they take one, and is not called.
    """
    for name in ("clip", "data"):
        sys.modules.pop(name, None)
    sys.path.append(str(folder / "CLIP"))
    import clip
    from configs import configs
    from data import finetuning_datasets
    from PIL import Image
    from training_utils.helpers import clip_forward_pass
    from training_utils.loss_functions import get_criterion

    side, work = shared_inputs["model"]["vision_cfg"]["image_size"], Path(shared_inputs["work"])
    transform = clip.clip._transform(side)

    def open_coco(root: str, annFile: str, transform: Any) -> list[tuple[Tensor, None]]:  # noqa: N803
        return [(transform(Image.open(path)), None) for path in shared_inputs["paths"]]

    pairs = zip(shared_inputs["captions"], shared_inputs["negatives"], strict=True)
    annotations = [{"json": {"caption": c}, "sop_data": {"negative-prompt": n[0]}} for c, n in pairs]
    torch.save({"image_paths": shared_inputs["paths"], "annotations": annotations}, work / "con_clip.pt")
    torch.save([[number] for number in shared_inputs["near"]], work / "distractors.pt")
    configs.num_ccneg_eval_samples = 0
    configs.finetuning_dataset_path = work / "con_clip.pt"
    configs.negative_image_ft_mapping_path = work / "distractors.pt"
    finetuning_datasets.dsets = SimpleNamespace(CocoCaptions=open_coco)
    data = finetuning_datasets.FineTuningDatasetWithNegatives(transform)
    rows = torch.utils.data.default_collate([data[i] for i in range(len(data))])
    images, negative_images, captions, negative_captions = rows
    pictures = torch.cat([images, negative_images])  # conclip_fine_tuning.py:37-44
    tokens = torch.cat([captions, negative_captions]).squeeze(1)
    model = use_float64(load(build_openai(shared_inputs["model"]), shared_inputs["state"]))
    criterion = get_criterion(SimpleNamespace(negative_images="on"))

    def compute() -> dict[str, Tensor]:
        return {"total": criterion(*clip_forward_pass(model, pictures.double(), tokens))}

    return take_step(model, compute, pictures, tokens)


def build_openai(cfg: dict[str, Any]) -> nn.Module:
    """Return OpenAI's model of a config, with the activation of ours, and layer norms that stay in float64."""
    from clip import model as module

    module.QuickGELU, module.LayerNorm = nn.GELU, nn.LayerNorm
    image, text = cfg["vision_cfg"], cfg["text_cfg"]
    shape = image["image_size"], image["patch_size"], image["width"], image["layers"]
    model = module.CLIP(
        cfg["embed_dim"], shape[0], shape[3], 64, shape[1], text["context_length"], text["vocab_size"],
        text["width"], text["heads"], text["layers"],
    )  # fmt: skip
    heads = image["width"] // image["head_width"]  # CLIP gives one to each 64 of its width
    model.visual = module.VisionTransformer(*shape, heads, cfg["embed_dim"])
    return model

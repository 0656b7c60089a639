"""The released program of degla, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from step_programs import Step, head_of, load, replace_absent, take_step, towers_of, use_float64
from torch import Tensor


def run(folder: Path, shared_inputs: Step) -> Step:
    """xiaoxing2001/DeGLA: four negatives of each caption, and the teacher of some later step.

    Its training gives the loss `distill_mse` and `distill_kl`, of which that knows nothing: they are left out here.
    """
    replace_absent("pycocotools", "pycocotools.coco", "datasets")
    import training.data as data_module
    from open_clip.loss import CLIPloss_DeGLA
    from open_clip.model import CLIP
    from open_clip.tokenizer import tokenize
    from open_clip.transform import image_transform

    work = Path(shared_inputs["work"])
    (work / "train2014").mkdir()
    samples = []
    columns = (shared_inputs[key] for key in ("paths", "captions", "negatives", "further"))
    for number, (path, caption, negatives, further) in enumerate(zip(*columns, strict=True)):
        shutil.copy(path, work / f"train2014/COCO_train2014_{number:012}.jpg")
        samples.append({"image_id": number, "original": caption, "enhanced": [*negatives, further[0]]})
    (work / "degla.json").write_text(json.dumps(samples))
    data_module.COCO_DATASET_ROOT = str(work)
    transform = image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=True)
    data = data_module.DeGLA_dataset(str(work / "degla.json"), transform, tokenizer=tokenize)
    pictures, texts, negatives = torch.utils.data.default_collate([data[i] for i in range(len(data))])
    tokens = torch.cat([texts, negatives.view(-1, negatives.shape[-1])])  # training/train.py:107-108
    teacher = use_float64(load(CLIP(**shared_inputs["model"]), head_of(shared_inputs["state"], "teacher.")))
    model = use_float64(load(CLIP(**shared_inputs["model"]), towers_of(shared_inputs["state"])))
    weights = {"text_local_weight": 0.1, "image_local_weight": 0.1, "distill_weight": 0.005}  # scripts/train_DeGLA.sh
    loss = CLIPloss_DeGLA(text_local_contrast=True, image_local_contrast=True, **weights)

    def compute() -> dict[str, Tensor]:
        with torch.no_grad():
            of_teacher = teacher(pictures.double(), tokens)[:2]
        return {"total": loss(*model(pictures.double(), tokens), *of_teacher)[0]}

    return take_step(model, compute, pictures, tokens)

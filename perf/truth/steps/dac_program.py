"""The released program of dac, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import torch
from step_programs import Step, load, replace_absent, take_step, use_float64
from torch import Tensor


def run(folder: Path, shared_inputs: Step) -> Step:
    """SivanDoveh/DAC: captions with a negative, and bags of four texts and their negatives, not drawn but in turn."""
    replace_absent("sentence_transformers")
    import training.data as data_module
    from open_clip import tokenize
    from open_clip.loss import ClipLoss
    from open_clip.model import CLIP
    from open_clip.transform import image_transform
    from training.train import prepare_data_for_neg_loss

    negative_of = {
        texts[0]: texts[1][0] for texts in zip(shared_inputs["captions"], shared_inputs["negatives"], strict=True)
    }
    maker = SimpleNamespace(create_negs=lambda text: tokenize([negative_of.get(text, f"no {text}")]))
    data_module.choose_negs_function = lambda args: maker
    data_module.UseExtra = lambda args: None
    data_module.random = SimpleNamespace(choices=lambda texts, k: [texts[i % len(texts)] for i in range(k)])
    work = Path(shared_inputs["work"])
    flags = {"vl_negs": True, "num_negs": 1, "neg_w": 1, "mil_batch": 4, "mil_dense_negs": True, "device": "cpu"}
    flags |= {"use_only_quality_captions": True, "quality_captions_folder": f"{work}/quality/"}
    names = ("vl_pos", "no_neg_in_contrastive", "save_data", "create_quality_captions", "create_SAM")
    args = SimpleNamespace(**flags, **dict.fromkeys(names, False), mil_dense=f"{work}/dense")
    write_files(work, shared_inputs)
    transform = image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=True)
    data = data_module.CsvDataset(str(work / "dac.csv"), transform, "filepath", "title", args=args)
    data.images.sort()  # a set, as a list
    collate = data_module.CsvDataset.collate_fn_mil_dense_plus_pos_or_neg()
    images, texts, extra, bags = collate([data[i] for i in range(len(data))])
    texts, with_negatives = prepare_data_for_neg_loss(extra["negatives"], args, "cpu", texts)
    model = use_float64(load(CLIP(**shared_inputs["model"]), shared_inputs["state"]))
    Tensor.cuda = lambda tensor: tensor  # type: ignore[misc, method-assign, assignment]

    def compute() -> dict[str, Tensor]:
        _, bag_AD, _ = model(images.double(), bags)
        return {"total": ClipLoss(args=args)(*model(images.double(), texts), with_negatives, bag_AD)[0]}

    return take_step(model, compute, images, torch.cat([texts, bags]))


def write_files(work: Path, shared_inputs: Step) -> None:
    """Write its list of pictures, and for each a file of its caption and one of further texts."""
    for name in ("training", "quality", "dense"):
        (work / name).mkdir()
    lines = ["filepath\ttitle"]
    for path, caption, further in zip(
        shared_inputs["paths"], shared_inputs["captions"], shared_inputs["further"], strict=True
    ):
        name = Path(path).name
        shutil.copy(path, work / "training" / name)
        (work / "quality" / f"{name}.json").write_text(json.dumps({"positive_caption": [caption]}))
        (work / "dense" / f"{name}.json").write_text(json.dumps(list(further)))
        lines.append(f"training/{name}\t{caption}")
    (work / "dac.csv").write_text("\n".join(lines))

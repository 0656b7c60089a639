"""The released program of cs_clip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import torch
from step_programs import Step, load, open_package, take_step, use_float64
from torch import Tensor


def run(folder: Path, shared_inputs: Step) -> Step:
    """kargibora/CS-CLIP: a caption and two of its units, a foil of each; also all texts."""
    import open_clip

    texts: list[str] = []
    package = ModuleType("clip")

    def tokenize(captions: list[str], truncate: bool = False) -> Tensor:
        texts.extend(captions)
        return open_clip.tokenize(captions)

    package.tokenize = tokenize  # type: ignore[attr-defined]
    sys.modules["clip"] = package
    open_package("data_loading", folder / "data_loading")
    import yaml
    from alignment.learning_alignment import compute_contrastive_loss_with_merged_batches, unpack_ft_multilayer
    from alignment.loss_factory import create_loss_from_config
    from data_loading.coco_neg import COCODataset, COCONeg
    from models import CLIPEndToEndPipeline
    from models.clip_ft import FlexibleCLIPMultiLayerAlignment
    from omegaconf import OmegaConf
    from utils.clip_wrapper import UniversalCLIPWrapper

    samples = []
    for i, (path, caption) in enumerate(zip(shared_inputs["paths"], shared_inputs["captions"], strict=True)):
        swapped = [{"negative": shared_inputs["negatives"][i][0]}]
        sample = {"image_path": path, "original_caption": caption, "swap_negatives": swapped}
        samples.append(sample | describe_parts(caption))
    (Path(shared_inputs["work"]) / "cs_clip").mkdir()
    (Path(shared_inputs["work"]) / "cs_clip/samples.json").write_text(json.dumps(samples))
    options = yaml.safe_load((folder / "configs/dataset/coco_neg.yaml").read_text())["dataset_kwargs"]
    options |= {"json_folder": str(Path(shared_inputs["work"]) / "cs_clip"), "image_root": shared_inputs["work"]}
    transform = open_clip.image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=False)
    data = COCONeg(COCODataset(image_preprocess=transform, **options), list(range(len(samples))))
    batch = data.collate_fn([data[i] for i in range(len(data))])
    clip = use_float64(load(open_clip.CLIP(**shared_inputs["model"]), shared_inputs["state"]))
    clip.dtype = torch.float64
    wrapped = UniversalCLIPWrapper(clip, transform, "openclip")
    head = FlexibleCLIPMultiLayerAlignment(align_text=False)  # configs/coco_ft.yaml
    model = CLIPEndToEndPipeline(wrapped, head, ["final"], ["final"])
    loss, weights = create_loss_from_config(OmegaConf.create({"loss": yaml.safe_load(
        (folder / "configs/loss/multi_caption.yaml").read_text())}))  # fmt: skip

    def compute() -> dict[str, Tensor]:
        inputs = unpack_ft_multilayer(batch | {"images": batch["images"].double()}, model, torch.device("cpu"))
        del inputs["num_positive_captions"]
        terms = compute_contrastive_loss_with_merged_batches(**inputs, loss_fn=loss, loss_kwargs=weights)[0]
        return {"caption": terms["full_loss"], "units": weights["lambda_components"] * terms["component_loss"]}

    tokens = torch.stack([batch["pos_tokens"], batch["neg_tokens"]], dim=1).flatten(0, 2)
    return take_step(clip, compute, batch["images"], tokens) | {"texts": texts}


def describe_parts(caption: str) -> Step:
    """Return two entities of a caption with a foil each, and what is said between them."""
    words = caption.replace(",", "").replace(".", "").split()
    first, second = words[1], words[-1]
    foils = {name: [{"negative": f"{name} toy", "change_type": "object"}] for name in (first, second)}
    relation = {"subject": first, "relation_type": " ".join(words[2:4]), "object": second}
    return {"entities": [first, second], "negative_entities": foils, "relations": [relation | {"negatives": []}]}

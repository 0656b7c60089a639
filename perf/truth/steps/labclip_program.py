"""The released program of labclip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from PIL import Image
from step_programs import Step, head_of, load, rename, replace_absent, take_step, towers_of, use_float64
from torch import Tensor

NAMES = {"linear.weight": "heads.weight", "t": "heads.log_scale"}


def run(folder: Path, shared_inputs: Step) -> Step:
    """A copy of kdariina/CLIP-not-BoW-unimodally: embeddings as it makes them, then a step of its map.

    Towers, tokenizer and transform of OpenAI's package are open_clip's. What cleans captions is another program's.
    """
    import open_clip

    tokens: list[Tensor] = []

    def tokenize(texts: list[str]) -> Tensor:
        tokens.append(open_clip.tokenize(texts))
        return tokens[-1]

    learning, utils, data = import_program(folder, tokenize)
    transform = open_clip.image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=False)
    pictures = [transform(Image.open(path)) for path in shared_inputs["paths"]]  # of float32
    towers = use_float64(load(open_clip.CLIP(**shared_inputs["model"]), towers_of(shared_inputs["state"])))
    image_BD = utils.get_image_emb(towers, Tensor.double, "cpu", pictures, normalize=True)
    captions = [caption for caption in shared_inputs["captions"] for _ in range(5)]  # of each picture there are five
    negatives = [texts[0] for texts in shared_inputs["negatives"] for _ in range(5)]
    embedded = [utils.get_text_emb(towers, texts, normalize=True, device="cpu") for texts in (captions, negatives)]
    rows = data.COCONegEmbeddings(image_BD, *embedded)
    batch = torch.utils.data.default_collate([rows[5 * i] for i in range(len(pictures))])
    model = learning.CLIPAlignment(image_BD.shape[-1])
    load(model, rename(head_of(shared_inputs["state"]), {"weight": "linear.weight", "log_scale": "t"})).double()

    def compute() -> dict[str, Tensor]:
        texts = torch.cat([model(batch[1]), model(batch[2])])  # learning_alignment.py:127-131
        return {"total": learning.constrastive_loss_with_negatives(batch[0], texts, model.t, "cpu")[0]}

    step = take_step(model, compute, torch.stack(pictures), torch.cat([token_AL[::5] for token_AL in tokens]))
    return step | {"slopes": rename(step["slopes"], NAMES)}


def import_program(folder: Path, tokenize: Any) -> tuple[Any, Any, Any]:
    """Return its loss, its embeddings and its data sets; `tokenize` takes the place of OpenAI's."""
    sys.path.insert(0, str(folder / "alignment"))
    package = ModuleType("clip")
    package.tokenize = tokenize  # type: ignore[attr-defined]
    sys.modules["clip"] = package
    replace_absent("dataset_zoo", "dataset_zoo.perturbations", "dataset_zoo.retrieval")
    loader: Any = SimpleNamespace(create_module=lambda spec: None, exec_module=lambda module: None)
    sys.modules["dataset_zoo"].__spec__ = ModuleSpec("dataset_zoo", loader)
    import alignment_datasets
    import coco_utils
    import learning_alignment

    return learning_alignment, coco_utils, alignment_datasets

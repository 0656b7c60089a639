"""The released program of fsc_clip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from step_programs import Step, load, take_step, use_float64
from torch import Tensor


def run(folder: Path, shared_inputs: Step) -> Step:
    """ytaek-oh/fsc-clip: three kinds of negatives behind the captions, a global and a local term of their own."""
    negatives = list(zip(*shared_inputs["negatives"], strict=True))  # by kind
    replaced = ModuleType("training.text_negatives")
    texts_there = [text for kind in negatives for text in kind if text is not None]
    masks = [int(text is not None) for kind in negatives for text in kind]
    replaced.add_random_text_hard_negatives = lambda texts, **_: (texts_there, masks)  # type: ignore[attr-defined]
    sys.modules["training.text_negatives"] = replaced
    from open_clip.model import CLIP
    from open_clip.tokenizer import tokenize
    from open_clip.transform import image_transform
    from training.data import CocoDataset
    from training.losses.loss import Local_HNLoss

    file = Path(shared_inputs["work"]) / "fsc_clip.csv"
    lines = ["filepath\ttitle\tneg_caption"]
    lines += [
        f"{picture}\t{caption}\t[]"
        for picture, caption in zip(shared_inputs["paths"], shared_inputs["captions"], strict=True)
    ]
    file.write_text("\n".join(lines))
    transform = image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=True)
    data = CocoDataset(
        str(file), transform, "filepath", "title", text_hard_negatives="fsc-clip", is_train=True, image_root=""
    )
    collate = CocoDataset.collate_fn("fsc-clip", tokenize)
    batch = collate([data[i] for i in range(len(data))])
    model = CLIP(**shared_inputs["model"], output_dict=True, return_dense_tokens=True)
    model = use_float64(load(model, shared_inputs["state"]))
    loss = Local_HNLoss(
        local_batch_size=len(data), apply_global_neg_loss=True, neg_loss_weight=0.5, neg_loss_name="focal_loss",
        focal_gamma=2.0, neg_label_smoothing=0.02, local_neg_weight=0.2,
    )  # fmt: skip

    def compute() -> dict[str, Tensor]:
        out = model(batch["images"].double(), batch["texts"], is_training=True)
        return loss(**out, neg_text_masks=batch["neg_masks"], output_dict=True)

    return take_step(model, compute, batch["images"], batch["texts"])

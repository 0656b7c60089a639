"""The released program of c2lip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from step_programs import Step, load, open_package, replace_absent, take_step, use_float64
from torch import Tensor

CONCEPTS = (("A Cat", "a red mat"), ("two dogs", "the tall white wall", "a ball"), (), ("Some birds", "the sea"))


def run(folder: Path, shared_inputs: Step) -> Step:
    """SamsungLabs/concept_centric_clip on one process, as its tars give samples: a caption without phrases is one.

    Its pickles give the tokens of such a caption to the tokenizer, which raises an error.
    """
    open_package("open_clip", folder / "src/open_clip")
    open_package("training", folder / "src/training")
    replace_absent("huggingface_hub")
    import open_clip.loss as loss_module
    from open_clip.model import CustomTextCLIP
    from open_clip.tokenizer import SimpleTokenizer
    from open_clip.transform import image_transform
    from PIL import Image
    from training.data import CC3m_custom_np_collate_fn, CC3m_np_json_processor

    cfg = {name: value for name, value in shared_inputs["model"].items() if name != "custom_text"}
    transform = image_transform(cfg["vision_cfg"]["image_size"], is_train=True, mean=None, std=None)
    read_texts = CC3m_np_json_processor(SimpleTokenizer(context_length=64))
    rows = []
    for path, caption, phrases in zip(shared_inputs["paths"], shared_inputs["captions"], CONCEPTS, strict=True):
        texts = read_texts({"shortLLA_captions": caption, "nounphrases": list(phrases)})
        rows.append((transform(Image.open(path).convert("RGB")), texts))
    pictures, texts, phrases, owners = CC3m_custom_np_collate_fn(return_nounphrases=True)(rows)
    model = use_float64(load(CustomTextCLIP(**cfg, output_dict=True, output_tokens=True), shared_inputs["state"]))
    loss_module.nn.Softmax = partial(torch.nn.Softmax, dim=1)  # of a matrix, as torch chooses with a warning
    loss = loss_module.C2LIP_Loss()

    def compute() -> dict[str, Tensor]:
        out = model(pictures.double(), texts, normalize=True)  # training/train.py:127-139
        out["nounphrases_features"] = model(text=phrases, output_tokens=False, normalize=True)
        out["nounphrases_indices"] = owners
        out.pop("text_tokens")
        terms = loss(**out, output_dict=True)
        return {"contrastive": terms["contrastive_loss"], "npc": terms["npc_loss"], "xac": 0.01 * terms["xac_loss"]}

    return take_step(model, compute, pictures, torch.cat([texts, phrases]))

"""The released program of superclip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import MethodType

import torch
from step_programs import Step, head_of, load, open_package, rename, replace_absent, take_step, towers_of, use_float64
from torch import Tensor, nn

TEXT = ("transformer.", "token_embedding.", "positional_embedding", "ln_final.", "text_projection")
HEAD = {"0.": "ln_mlp.", "1.": "text_projection."}


def run(folder: Path, shared_inputs: Step) -> Step:
    """hustvl/SuperCLIP: the second step on one batch; its head reads projected patches, as ours does.

    Its own reads those before the projection, of another width (`compclip/methods/superclip.py`).
    """
    sys.path.insert(0, str(folder / "superclip"))
    open_package("open_clip", folder / "superclip/open_clip")
    open_package("training", folder / "superclip/training")
    replace_absent("huggingface_hub")
    from open_clip.loss import SuperClipLoss
    from open_clip.tokenizer import SimpleTokenizer
    from open_clip.transform import image_transform
    from training.data import CsvDataset

    file = Path(shared_inputs["work"]) / "superclip.csv"
    lines = [
        f"{picture}\t{caption}"
        for picture, caption in zip(shared_inputs["paths"], shared_inputs["captions"], strict=True)
    ]
    file.write_text("\n".join(["filepath\ttitle", *lines]))
    transform = image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=True, mean=None, std=None)
    tokenizer = SimpleTokenizer(context_length=77)
    data = CsvDataset(str(file), transform, "filepath", "title", tokenizer=tokenizer)
    pictures, tokens = torch.utils.data.default_collate([data[i] for i in range(len(data))])
    model, loss = use_float64(build_model(shared_inputs)), SuperClipLoss()
    torch.float32 = torch.float64  # of its targets

    def compute() -> dict[str, Tensor]:
        with torch.no_grad():
            loss(**model(pictures.double(), tokens), output_dict=True)  # counts words
        terms = loss(**model(pictures.double(), tokens), output_dict=True)
        return {name: terms[name] for name in ("contrastive_loss", "class_loss")}

    step = take_step(model, compute, pictures, tokens)
    head = {f"text_decoder.{theirs}": f"heads.{ours}" for ours, theirs in HEAD.items()}
    return step | {"slopes": rename(step["slopes"], head | {f"text.{name}": name for name in TEXT})}


def build_model(shared_inputs: Step) -> nn.Module:
    """Return its model with our weights, with a head as wide as ours."""
    from open_clip.superclip_model import SuperCLIP
    from open_clip.transformer import MixClsHead

    cfg, joint = shared_inputs["model"], shared_inputs["model"]["embed_dim"]
    vision = cfg["vision_cfg"] | {"output_tokens": True}
    words = {"context_length": 77, "vocab_size": 49408, "layers": 0, "mlp_ratio": 4}  # SuperCLIP-ViT-B-16.json
    model = SuperCLIP(joint, vision, cfg["text_cfg"], words)
    model.text_decoder = MixClsHead(joint, 0, output_dim=words["vocab_size"])
    model._avg_pool = MethodType(lambda self, token_BNW: (token_BNW @ self.visual.proj).mean(dim=1), model)
    towers = rename(towers_of(shared_inputs["state"]), {name: f"text.{name}" for name in TEXT})
    head = rename(head_of(shared_inputs["state"]), {ours: f"text_decoder.{theirs}" for ours, theirs in HEAD.items()})
    counts = {name: getattr(model, name) for name in ("cap_fq", "num_samples")}
    return load(model, towers | head | counts)

"""Our step of read_clip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from PIL import Image

from compclip.interface.method import load_method
from compclip.model.clip_model import ClipModel
from compclip.train import extras
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, FURTHER, NEGATIVES, Step, take_step


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """Three negatives of each caption, a text that finds it and one that is read by the T5 that the program wrote."""
    t5 = Path(paths[0]).parent / "t5"
    options = {"decoder": str(t5), "reads": "state"}
    method = load_method("read_clip")
    heads = method.heads(method.Config(**options), extras.widths(model))
    heads.project.load_state_dict(torch.load(t5 / "project.pt", weights_only=True))
    model.clip.heads = heads
    rows = [
        View(
            cut_middle(path, model.image_size),
            CAPTIONS[i],
            NEGATIVES[i],
            FURTHER[i][:1],
            texts={"target": (FURTHER[i][1],)},
        )
        for i, path in enumerate(paths)
    ]
    batch, step = take_step("read_clip", options, rows, model)
    texts = [batch.text_BL, batch.negative_BKL.flatten(0, 1), batch.positive_BPL[:, 0]]
    total = {"total": torch.stack(list(step.terms.values())).sum()}
    return replace(step, token_AL=torch.cat(texts), terms=total)


def cut_middle(path: str, side: int) -> Image.Image:
    """Return the middle of a picture as transformers cuts it: a pixel beside open_clip's where the rest is odd."""
    with Image.open(path) as picture:
        width, height = (side * pixels // min(picture.size) for pixels in picture.size)
        scaled = picture.convert("RGB").resize((width, height), Image.Resampling.BICUBIC)
    left_edge, upper = (width - side) // 2, (height - side) // 2
    return scaled.crop((left_edge, upper, left_edge + side, upper + side))

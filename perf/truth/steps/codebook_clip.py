"""Our step of codebook_clip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from PIL import Image
from torch import nn

from compclip.model.clip_model import ClipModel
from compclip.train import picture_views
from compclip.train.batch import View
from perf.truth.released_steps import CONFIG, SIDE, Step, take_step

WIDTH = 32  # of both towers, and of the joint space, so that a projection may be left out
OPTIONS = {"codes": 7, "code_width": 8, "temperature": 0.5}
MODEL: dict[str, Any] = {
    "embed_dim": WIDTH,
    "quick_gelu": True,  # written into its program
    "vision_cfg": CONFIG["vision_cfg"],
    "text_cfg": CONFIG["text_cfg"],
}


def step(paths: list[str], model: ClipModel, theirs: Step, name: str = "codebook_clip") -> Step:
    """Whole texts, the patches and tokens of its query, and pictures by its kernel and statistics."""
    leave_out_maps(model)
    model.preprocess_cfg.update(picture_views.IMAGENET)
    kernel = Image.Resampling.BILINEAR
    pictures = [Image.open(path).convert("RGB").resize((SIDE, SIDE), kernel) for path in paths]
    rows = [View(picture, text) for picture, text in zip(pictures, theirs.texts, strict=True)]
    batch, step = take_step(name, OPTIONS, rows, model)
    alone = (
        "visual.ln_post",
        "visual.proj",
        "text_projection",
        "visual.conv1",
    )  # of the last its program trains nothing
    slopes = {name: slope for name, slope in step.slopes.items() if not name.startswith(alone)}
    return replace(step, token_AL=batch.text_BL, slopes=slopes)


def leave_out_maps(model: ClipModel) -> None:
    """Let the norm behind the last block and both projections change nothing, and a norm of a norm be the norm."""
    visual: Any = model.clip.visual
    visual.ln_post = nn.LayerNorm(WIDTH, eps=0.0)
    heads: Any = model.clip.heads
    heads.image_query[0].eps = 0.0
    projections: list[Any] = [visual.proj, model.clip.text_projection]
    with torch.no_grad():
        for projection in projections:
            nn.init.eye_(projection)

"""Our step of cs_clip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch
from PIL import Image

from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth.released_steps import Step, take_step


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """The texts that they drew: a caption, two units, its negative, two foils."""
    rows, count = [], len(theirs.texts) // len(paths)
    for i, path in enumerate(paths):
        caption, *rest = theirs.texts[i * count : (i + 1) * count]
        units, negatives = tuple(rest[: count // 2 - 1]), tuple(rest[count // 2 - 1 :])
        rows.append(View(Image.open(path), caption, negatives, units))
    batch, step = take_step("cs_clip", {}, rows, model)
    true_BCL = torch.cat([batch.text_BL[:, None], batch.positive_BPL], dim=1)
    token_BCL = torch.stack([true_BCL, batch.negative_BKL], dim=1)
    return replace(step, token_AL=token_BCL.flatten(0, 2))

"""Our step of labclip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch
from PIL import Image

from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, NEGATIVES, Step, take_step


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """Pictures as the model shows them, frozen towers, a negative of each caption."""
    rows = [View(Image.open(path), CAPTIONS[i], NEGATIVES[i][:1]) for i, path in enumerate(paths)]
    batch, step = take_step("labclip", {}, rows, model, frozenset({"image", "text"}))
    return replace(step, token_AL=torch.cat([batch.text_BL, batch.negative_BKL[:, 0]]))

"""Our step of negclip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch

from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, NEAR, NEGATIVES, Step, squeeze, take_step


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """Each row brings its near picture; texts stand as there: captions, then negatives."""
    rows = [View(squeeze(paths[i]), CAPTIONS[i], NEGATIVES[i][:1]) for i in (*range(len(paths)), *NEAR)]
    batch, step = take_step("negclip", {"hard_images": 1}, rows, model)
    return replace(step, token_AL=torch.cat([batch.text_BL, batch.negative_BKL[:, 0]]))

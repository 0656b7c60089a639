"""Our step of fsc_clip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch

from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, NEGATIVES, Step, squeeze, take_step


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """Captions, then the negatives that are there, kind by kind."""
    rows = [View(squeeze(path), CAPTIONS[i], NEGATIVES[i]) for i, path in enumerate(paths)]
    batch, step = take_step("fsc_clip", {}, rows, model)
    mask_BK = batch.texts["negatives"].mask
    assert mask_BK is not None
    by_kind = [batch.negative_BKL[mask_BK[:, k], k] for k in range(mask_BK.shape[1])]
    return replace(step, token_AL=torch.cat([batch.text_BL, *by_kind]))

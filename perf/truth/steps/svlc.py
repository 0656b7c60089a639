"""Our step of svlc beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch

from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, NEGATIVES, Step, squeeze, take_step


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """A negative of each caption; captions, then negatives."""
    rows = [View(squeeze(path), CAPTIONS[i], NEGATIVES[i][:1]) for i, path in enumerate(paths)]
    batch, step = take_step("svlc", {}, rows, model)
    total = {"total": torch.stack(list(step.terms.values())).sum()}
    return replace(step, token_AL=torch.cat([batch.text_BL, batch.negative_BKL[:, 0]]), terms=total)

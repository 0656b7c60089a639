"""Our step of ahnpl beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch

from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, NEGATIVES, Step, squeeze, take_step


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """Four negatives of each caption, the last one a caption of another picture; captions, then row by row."""
    fourth = (*CAPTIONS[1:], CAPTIONS[0])
    rows = [View(squeeze(path), CAPTIONS[i], (*NEGATIVES[i], fourth[i])) for i, path in enumerate(paths)]
    batch, step = take_step("ahnpl", {}, rows, model)
    total = {"total": torch.stack(list(step.terms.values())).sum()}
    return replace(step, token_AL=torch.cat([batch.text_BL, batch.negative_BKL.flatten(0, 1)]), terms=total)

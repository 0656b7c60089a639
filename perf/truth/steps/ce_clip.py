"""Our step of ce_clip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch

from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, FURTHER, NEGATIVES, Step, squeeze, take_step

OPTIONS = {"lambda_rank": 0.2, "lambda_intra": 0.3}  # scripts/run_multiple_nodes.sh


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """Four negatives of each caption; captions, then the negatives of one caption after the other."""
    rows = [View(squeeze(path), CAPTIONS[i], (*NEGATIVES[i], FURTHER[i][0])) for i, path in enumerate(paths)]
    batch, step = take_step("ce_clip", OPTIONS, rows, model)
    total = {"total": torch.stack(list(step.terms.values())).sum()}
    return replace(step, token_AL=torch.cat([batch.text_BL, batch.negative_BKL.flatten(0, 1)]), terms=total)

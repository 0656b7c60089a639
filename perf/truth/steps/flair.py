"""Our step of flair beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch

from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, Step, squeeze, take_step

OPTIONS = {"draw": "released"}


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """The texts that they drew, eight of each picture; no constant in the query's norm, as there."""
    model.clip.heads.norm_query.eps = 0.0
    K = len(theirs.texts) // len(paths)
    drawn_texts = [theirs.texts[i * K : (i + 1) * K] for i in range(len(paths))]
    rows = [View(squeeze(path), CAPTIONS[i], (), drawn_texts[i]) for i, path in enumerate(paths)]
    batch, step = take_step("flair", OPTIONS, rows, model)
    total = {"total": torch.stack(list(step.terms.values())).sum()}
    return replace(step, token_AL=batch.positive_BPL.flatten(0, 1), terms=total)

"""Our step of clove beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch

from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth import released_steps
from perf.truth.released_steps import CAPTIONS, NEGATIVES, Step, squeeze, take_step

CONFIG = released_steps.CONFIG | {"text_cfg": released_steps.CONFIG["text_cfg"] | {"context_length": 64}}


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """A negative of each caption but the last, no "!"; captions, then the negatives that are there."""
    negatives: list[str | None] = [texts[0].replace("!", "") for texts in NEGATIVES[:-1]]
    negatives.append(None)
    rows = [View(squeeze(path), CAPTIONS[i].replace("!", ""), (negatives[i],)) for i, path in enumerate(paths)]
    batch, step = take_step("clove", {}, rows, model)
    return replace(step, token_AL=torch.cat([batch.text_BL, batch.negative_BKL[batch.texts["negatives"].mask]]))

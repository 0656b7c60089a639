"""Our step of llip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, Step, squeeze, take_step

OPTIONS = {"tokens": 3}


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """Pictures and captions."""
    rows = [View(squeeze(path), CAPTIONS[i]) for i, path in enumerate(paths)]
    batch, step = take_step("llip", OPTIONS, rows, model)
    return replace(step, token_AL=batch.text_BL)

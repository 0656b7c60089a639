"""Our step of superclip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, Step, squeeze, take_step


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """Captions that are encoded, and whose words are read."""
    rows = [View(squeeze(path), CAPTIONS[i], texts={"target": (CAPTIONS[i],)}) for i, path in enumerate(paths)]
    return take_step("superclip", {}, rows, model)[1]

"""Our step of il_clip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from compclip.model.clip_model import ClipModel
from perf.truth.released_steps import Step
from perf.truth.steps import codebook_clip

OPTIONS = codebook_clip.OPTIONS
MODEL = codebook_clip.MODEL


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """Codebook-CLIP's step: generations are of the trainer."""
    return codebook_clip.step(paths, model, theirs, "il_clip")

"""Our step of gnm_clip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch
from PIL import Image
from torch import Tensor

from compclip.model import clip_model
from compclip.model.clip_model import ClipModel
from compclip.text.stored_texts import plain_words
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, Step, take_step

OPTIONS = {"draw": "scores", "original": "left_out"}


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """Two objects with two variations each, then the plain pairs that they drew: one behind each object."""
    pictures = [Image.open(path).convert("RGB") for path in paths]
    plain = [CAPTIONS.index(text) for text in theirs.texts[2::3]]
    rows = []
    for pair in ((0, 1), (2, 3)):
        texts = tuple(plain_words(CAPTIONS[i]) for i in pair)
        rows.append(View(pictures[0], CAPTIONS[0], texts, negative_images=tuple(pictures[i] for i in pair)))
    rows += [View(pictures[i], CAPTIONS[i], (None, None), negative_images=(None, None)) for i in plain]
    batch, step = take_step("gnm_clip", OPTIONS, rows, model)
    negative_BJ3HW = batch.pictures["negative_images"].image_BJ3HW
    assert negative_BJ3HW is not None and batch.statistics_23 is not None
    changed_BJ3HW = clip_model.normalise_pictures(negative_BJ3HW, batch.statistics_23)
    return replace(
        step,
        picture_B3HW=in_their_order(changed_BJ3HW, step.picture_B3HW),
        token_AL=in_their_order(batch.negative_BKL, batch.text_BL),
    )


def in_their_order(variations: Tensor, originals: Tensor) -> Tensor:
    """Return each object's two variations and the plain row behind it."""
    return torch.cat([torch.cat([variations[i], originals[2 + i, None]]) for i in range(2)])

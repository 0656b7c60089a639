"""Our step of con_clip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch
from PIL import Image

from compclip.model import clip_model
from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, NEAR, NEGATIVES, Step, take_step


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """A distractor of each picture and a negation, without commas as its grid asks; captions, then negations."""
    pictures = [Image.open(path).convert("RGB") for path in paths]
    negations = [negatives[0].replace(",", "") for negatives in NEGATIVES]
    rows = [
        View(picture, CAPTIONS[i], (negations[i],), negative_images=(pictures[NEAR[i]],))
        for i, picture in enumerate(pictures)
    ]
    batch, step = take_step("con_clip", {}, rows, model)
    negative_BJ3HW = batch.pictures["negative_images"].image_BJ3HW
    assert negative_BJ3HW is not None and batch.statistics_23 is not None
    negative_B3HW = clip_model.normalise_pictures(negative_BJ3HW[:, 0], batch.statistics_23)
    return replace(
        step,
        picture_B3HW=torch.cat([step.picture_B3HW, negative_B3HW]),
        token_AL=torch.cat([batch.text_BL, batch.negative_BKL[:, 0]]),
        terms={"total": torch.stack(list(step.terms.values())).sum()},
    )

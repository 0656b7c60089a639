"""Our step of fg_clip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch

from compclip.methods.fg_clip import PHOTO
from compclip.model.clip_model import ClipModel
from compclip.train.batch import RegionView, View
from perf.truth.released_steps import CAPTIONS, FURTHER, Step, squeeze, take_step

BOXES = ((0.1, 0.2, 0.65, 0.9), (0.0, 0.0, 0.3, 0.35), (0.5, 0.1, 1.0, 0.4), (0.25, 0.55, 0.8, 0.75))
FALSE_TEXTS = 10
OPTIONS = {"short": "photo", "regions": len(BOXES), "region_negatives": FALSE_TEXTS, "init_scale": 5.0}


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """A long and a short caption, and four regions with the captions that they drew, first captions and false texts."""
    rows, count = [], len(theirs.texts) // len(paths)
    for i, path in enumerate(paths):
        _, _, *region_texts = theirs.texts[i * count : (i + 1) * count]
        captions, first_and_false = region_texts[: len(BOXES)], region_texts[len(BOXES) :]
        regions = []
        for r, box in enumerate(BOXES):
            own = first_and_false[r * (1 + FALSE_TEXTS) : (r + 1) * (1 + FALSE_TEXTS)]
            regions.append(RegionView(box, (captions[r], *own)))
        rows.append(View(squeeze(path), CAPTIONS[i], (), (PHOTO + FURTHER[i][0],), regions=tuple(regions)))
    batch, step = take_step("fg_clip", OPTIONS, rows, model)
    text_BRCL = batch.texts["region_texts"].ids
    drawn_texts = [text_BRCL[:, :, 0], text_BRCL[:, :, 1:]]
    tokens = [batch.text_BL, batch.positive_BPL[:, 0], drawn_texts[0].flatten(0, 1), drawn_texts[1].flatten(0, 2)]
    total = {"total": torch.stack(list(step.terms.values())).sum()}
    return replace(step, token_AL=torch.cat(tokens), terms=total)

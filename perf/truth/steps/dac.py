"""Our step of dac beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch

from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, FURTHER, NEGATIVES, Step, squeeze, take_step


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """A bag of four and its negatives; texts stand as there: captions, negatives, each bag and its negatives."""
    rows = []
    for i, path in enumerate(paths):
        bag = (*FURTHER[i], CAPTIONS[i], FURTHER[i][0])
        further = f"no {FURTHER[i][0]}", f"no {FURTHER[i][1]}"
        negatives = (NEGATIVES[i][0], *further, NEGATIVES[i][0], further[0])
        rows.append(View(squeeze(path), CAPTIONS[i], negatives, bag))
    batch, step = take_step("dac", {"bag": 4}, rows, model)
    bags = torch.cat([batch.positive_BPL, batch.negative_BKL[:, 1:]], dim=1).flatten(0, 1)
    total = {"total": torch.stack(list(step.terms.values())).sum()}
    return replace(step, token_AL=torch.cat([batch.text_BL, batch.negative_BKL[:, 0], bags]), terms=total)

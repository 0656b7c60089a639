"""Our step of clic beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from compclip.model import clip_model
from compclip.model.clip_model import ClipModel
from compclip.text import sentences
from compclip.train import picture_views
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, FURTHER, Step, take_step


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """Their partners and orders of sentences; composites, joined texts and tokens are ours."""
    rows, count = [], len(theirs.texts) // len(paths)
    for i, path in enumerate(paths):
        texts_of_sample = theirs.texts[
            i * count : (i + 1) * count
        ]  # further ones, p1, p2, negative, the single caption
        partner = next(j for j in range(len(paths)) if join_clic(CAPTIONS[i], CAPTIONS[j]) == texts_of_sample[2])
        p1, p2 = join_clic(CAPTIONS[i], CAPTIONS[partner]), join_clic(CAPTIONS[partner], CAPTIONS[i])
        ways = [join_clic(*pair) for pair in itertools.permutations((*FURTHER[i], *FURTHER[partner]), 2)]
        further = [next(way for way in ways if way == text) for text in texts_of_sample[:2]]
        negative = join_clic(f"no {CAPTIONS[i]}", CAPTIONS[partner])
        first, second = Image.open(path).convert("RGB"), Image.open(paths[partner]).convert("RGB")
        generators = map(np.random.default_rng, range(9))  # both orders of the two are among them
        squares = [picture_views.join_pictures(first, second, model.image_size, rng) for rng in generators]
        square = min(squares, key=lambda square: distance(square, theirs.picture_B3HW[i]))
        rows.append(View(square, p1, (negative,), (p2, *further)))
    batch, step = take_step("clic", {"ends": "clic", "statistics": "imagenet"}, rows, model)
    texts = [batch.text_BL, *batch.positive_BPL.unbind(1), batch.negative_BKL[:, 0]]
    total = {"total": torch.stack(list(step.terms.values())).sum()}
    return replace(step, token_AL=torch.cat(texts), terms=total)


def join_clic(first: str, second: str) -> str:
    """Join two captions as CLIC's method does with `ends: clic`, in lower case."""
    return sentences.JOINS["clic"](first.lower(), second.lower())


def distance(square: Image.Image, picture_3HW: Tensor) -> float:
    """Return how far a composite is from one that is normalised by ImageNet's statistics."""
    statistics = torch.tensor([picture_views.IMAGENET["mean"], picture_views.IMAGENET["std"]])
    pixels = torch.from_numpy(np.array(square)).permute(2, 0, 1)[None]
    return float((clip_model.normalise_pictures(pixels, statistics)[0] - picture_3HW).abs().mean())

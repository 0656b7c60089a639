"""Our step of fineclip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import timm
import torch
from PIL import Image

from compclip.model import clip_model
from compclip.model.clip_model import ClipModel
from compclip.train.batch import RegionView, View
from compclip.train.picture_views import cut_region
from perf.truth import released_steps
from perf.truth.released_steps import CAPTIONS, FURTHER, SIDE, Step, take_step

BOXES = ((0.1, 0.25, 0.45, 0.6), (0.3, 0.05, 0.55, 0.9))  # left, upper, width, height in shares of a picture
OPTIONS = {"regions": len(BOXES)}
TRUNK = {"img_size": SIDE, "patch_size": 56, "embed_dim": 32, "depth": 2, "num_heads": 2}
VISION = {"image_size": SIDE, "timm_model_name": "eva02_base_patch16_clip_224", "timm_pool": "token", "timm_proj": None}
MODEL: dict[str, Any] = {"custom_text": True, "vision_cfg": VISION}


def open_model(folder: Path, config: dict[str, Any]) -> ClipModel:
    """Return a tiny EVA02."""
    create = timm.create_model
    with patch.object(timm, "create_model", lambda name, **kwargs: create(name, **kwargs | TRUNK)):
        return released_steps.open_model(folder, config)


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """Whole pictures by a bilinear kernel, as there, two regions each in their order, and a frozen text tower."""
    rows = []
    for i, path in enumerate(paths):
        picture = Image.open(path).convert("RGB")
        regions = []
        for text in theirs.texts[i * 3 + 1 : i * 3 + 3]:
            left_edge, upper, across, down = find_pixels(picture, BOXES[FURTHER[i].index(text)])
            width, height = picture.size
            box = (left_edge / width, upper / height, (left_edge + across) / width, (upper + down) / height)
            regions.append(RegionView(box, (text,), cut_region(picture, box, 1.5, SIDE, resize)))
        rows.append(View(resize(picture, (SIDE, SIDE)), CAPTIONS[i], regions=tuple(regions)))
    batch, step = take_step("fineclip", OPTIONS, rows, model, frozenset({"text"}))
    crop_BR3HW = batch.pictures["region_crops"].image_BJ3HW
    assert crop_BR3HW is not None and batch.statistics_23 is not None
    crops = clip_model.normalise_pictures(crop_BR3HW.flatten(0, 1), batch.statistics_23)
    return replace(
        step,
        picture_B3HW=torch.cat([step.picture_B3HW, crops]),
        token_AL=torch.cat([batch.text_BL, batch.texts["region_texts"].ids[:, :, 0].flatten(0, 1)]),
    )


def find_pixels(picture: Image.Image, box: tuple[float, ...]) -> list[int]:
    """Return a box in whole pixels."""
    return [round(share * size) for share, size in zip(box, picture.size * 2, strict=True)]


def resize(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Return a picture as its program scales it."""
    return picture.resize(size, Image.Resampling.BILINEAR)

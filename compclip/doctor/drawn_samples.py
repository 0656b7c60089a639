"""Samples that need no data: drawn pictures and captions, and everything that a method's views ask for beside them.

B samples, K negatives, P extra positives, J negative images, H height, W width.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image

from compclip.interface.views import Regions, Views
from compclip.model import clip_model, tokenizers
from compclip.model.clip_model import ClipModel
from compclip.train.batch import TARGET, RegionView, View

SCALES = (4, 16, 64, 256, 512)  # cells along a side of the fields that make up a picture
FALL = 0.15  # how much less a finer field shows: such a photograph costs as much to decode as COCO's
PRESENT = 0.7  # share of the texts and pictures that a rule gave
COLOURS = ("red", "blue", "small", "old", "wooden", "bright", "empty", "striped")
THINGS = ("dog", "bicycle", "table", "window", "train", "bottle", "umbrella", "horse")
PLACES = ("on a beach", "near the station", "in the rain", "at night", "behind a fence", "under a bridge")
SMALL = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": 64, "patch_size": 16, "width": 128, "layers": 2, "head_width": 64},
    "text_cfg": {"context_length": 32, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2},
}


def build_model(model_cfg: Mapping[str, Any], seed: int = 0) -> ClipModel:
    """Build a model with CLIP's tokenizer and random weights, on the CPU."""
    torch.manual_seed(seed)
    clip = clip_model.build_module(model_cfg)
    coder = _open_tokenizer(model_cfg["text_cfg"].get("context_length", 77))
    return clip_model.assemble(clip, dict(model_cfg), "drawn", {}, coder)


@functools.cache
def _open_tokenizer(context_length: int) -> tokenizers.ClipTokenizer:
    return tokenizers.ClipTokenizer(context_length)


def draw_picture(rng: np.random.Generator, size: tuple[int, int]) -> Image.Image:
    """Return a picture [W, H] with structure at all scales."""
    pixels_HW3 = np.full((size[1], size[0], 3), 128.0)
    for scale in (s for s in SCALES if s <= max(size)):
        field_SS3 = rng.normal(size=(scale, scale, 3)) * 40 * (4 / scale) ** FALL
        planes = [Image.fromarray(field_SS3[..., c]).resize(size, Image.Resampling.BICUBIC) for c in range(3)]
        pixels_HW3 += np.stack([np.asarray(plane) for plane in planes], axis=-1)
    return Image.fromarray(np.clip(pixels_HW3, 0, 255).astype(np.uint8))


def draw_text(rng: np.random.Generator) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return a caption, and the characters of its two noun phrases."""
    first, second = (f"{rng.choice(COLOURS)} {rng.choice(THINGS)}" for _ in range(2))
    start = f"a {first} beside a "
    text = f"{start}{second} {' '.join(rng.choice(PLACES, int(rng.integers(1, 4)), replace=False))}"
    return text, ((2, 2 + len(first)), (len(start), len(start) + len(second)))


def draw_views(views: Views, size: int, side: int, seed: int) -> list[View]:
    """Return `size` views with pictures of `side` pixels and all that `views` asks for; some texts are missing."""
    rng = np.random.default_rng(seed)
    return [_draw_view(views, side, rng) for _ in range(size * (1 + views.neighbours))]


def _draw_view(views: Views, side: int, rng: np.random.Generator) -> View:
    K = views.negative_texts
    P = views.positive_texts
    caption, concepts = draw_text(rng)
    negatives, positives = (tuple(_draw_or_none(rng, draw_text(rng)[0]) for _ in range(n)) for n in (K, P))
    picture = draw_picture(rng, (side, side))
    texts = {name: tuple(draw_text(rng)[0] for _ in range(count)) for name, count in views.named_texts.items()}
    concepts = concepts[: int(rng.integers(1, 3))] if views.concepts else ()
    pictures = tuple(_draw_or_none(rng, draw_picture(rng, (side, side))) for _ in range(views.negative_images))
    if views.target:
        texts[TARGET] = (draw_text(rng)[0],)
    regions: list[RegionView | None] = []
    asked = views.regions
    if asked:
        regions = [_draw_or_none(rng, _draw_region(asked, picture, rng)) for _ in range(asked.count)]
    return View(
        image=picture,
        caption=caption,
        negatives=negatives,
        positives=positives,
        concepts=concepts,
        negative_images=pictures,
        texts=texts,
        regions=tuple(regions),
    )


def _draw_region(asked: Regions, picture: Image.Image, rng: np.random.Generator) -> RegionView:
    low = rng.uniform(0, 0.5, 2)
    high = low + rng.uniform(0.1, 0.5, 2)
    false_texts = tuple(_draw_or_none(rng, draw_text(rng)[0]) for _ in range(asked.negatives))
    texts = (draw_text(rng)[0], draw_text(rng)[0])[: 2 if false_texts else 1] + false_texts
    return RegionView((low[0], low[1], high[0], high[1]), texts, picture if asked.crops else None)


def _draw_or_none(rng: np.random.Generator, value: Any) -> Any:
    return value if rng.random() < PRESENT else None

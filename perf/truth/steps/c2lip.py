"""Our step of c2lip beside its released program's: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from dataclasses import replace

import torch

from compclip.model.clip_model import ClipModel
from compclip.train.batch import View
from perf.truth.released_steps import CAPTIONS, Step, squeeze, take_step

OPTIONS = {"concepts": "encoded", "whole_concept": True}
CONFIG = {  # as ViT-B-16-SigLIP: a tower of timm's whose pool maps patches, texts of a tower of their own
    "embed_dim": 64,
    "init_logit_bias": -10,
    "custom_text": True,
    "vision_cfg": {"image_size": 160, "timm_model_name": "test_vit", "timm_pool": "map", "timm_proj": "none"},
    "text_cfg": {
        "context_length": 64, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2, "no_causal_mask": True,
        "proj_bias": True, "pool_type": "last",
    },
}  # fmt: skip
CONCEPTS = (("A Cat", "a red mat"), ("two dogs", "the tall white wall", "a ball"), (), ("Some birds", "the sea"))


def step(paths: list[str], model: ClipModel, theirs: Step) -> Step:
    """Captions with noun phrases, one without; captions, then phrases."""
    rows = []
    for path, caption, phrases in zip(paths, CAPTIONS, CONCEPTS, strict=True):
        starts = [(caption.index(phrase), phrase) for phrase in phrases or (caption,)]
        spans = tuple((start, start + len(phrase)) for start, phrase in starts)
        rows.append(View(squeeze(path, model.image_size), caption, concepts=spans))
    batch, step = take_step("c2lip", OPTIONS, rows, model)
    return replace(step, token_AL=torch.cat([batch.text_BL, batch.texts["concepts"].ids]))

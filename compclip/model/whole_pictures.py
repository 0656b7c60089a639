"""Models that see whole pictures, scaled to their square, in the place of what a square cut out of the middle shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import open_clip

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel


def squash_pictures(model: ClipModel) -> None:
    """Let a model scale whole pictures to its square wherever it is scored, in place, as `Views.squash` trains it."""
    model.preprocess_cfg["resize_mode"] = "squash"
    if model.transform is not None:  # a model that is built to measure its steps prepares no picture
        preprocess = open_clip.transform.PreprocessCfg(**model.preprocess_cfg)
        model.transform.transforms = open_clip.transform.image_transform_v2(preprocess, is_train=False).transforms

"""A text tower with fewer positions: the first rows of its positional embedding (CLoVe trains and ships 64 of 77).

Texts that fit get the same embedding up to rounding, longer ones are cut earlier.

L positions, W width.
"""

from __future__ import annotations

import copy
from dataclasses import replace

from torch import nn

from compclip.base.errors import UserError
from compclip.model import tokenizers
from compclip.model.backbone import Model


def cut(model: Model, length: int) -> Model:
    """The model with `length` positions, changed in place; with its own number the model as it is.

    Raises UserError for more positions than it has, and for a text tower that is not CLIP's own.
    """
    clip = model.clip
    if not isinstance(model.tokenizer, tokenizers.Clip) or not hasattr(clip, "positional_embedding"):
        raise UserError(f"train.context_length={length}: only for CLIP's own text tower; remove it")
    if not 3 <= length <= clip.context_length:
        raise UserError(f"train.context_length={length}: must be from 3 to {clip.context_length}, the backbone's")
    if length == clip.context_length:
        return model
    clip.positional_embedding = nn.Parameter(clip.positional_embedding.detach()[:length].clone())
    clip.context_length = length
    if clip.attn_mask is not None:
        clip.attn_mask = clip.attn_mask[:length, :length]
    cfg = copy.deepcopy(model.model_cfg)
    cfg["text_cfg"]["context_length"] = length
    return replace(model, tokenizer=tokenizers.Clip(length), model_cfg=cfg)

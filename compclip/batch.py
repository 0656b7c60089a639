"""Views and batches: what a method wants made of a sample, and the one structure a training step receives.

B images, K negatives, P extra positives, L text positions, M concepts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields

import numpy as np
import torch
from torch import Tensor

from compclip.text.annotation import Annotation

Rule = Callable[[Annotation, np.random.Generator], "str | None"]


@dataclass(frozen=True)
class Views:
    """What one step needs of every sample.

    `caption`: the whole caption ("full") or its first sentence ("first"). `composite`: 0 for the picture itself, else
    the number of positive captions p1, p2, … of a CLIC composite; its negative is the cross-image swap. `partner`:
    False keeps the single picture (CLIC B1-B4): p2 = p1, and the negative exchanges words of its first sentence.
    `concepts`: "" for none, "pooled" for spans in the caption, "encoded" for texts of their own. `tokens`: patches and
    text tokens are needed too.
    """

    negatives: tuple[Rule, ...] = ()
    positives: tuple[Rule, ...] = ()
    caption: str = "first"
    lowercase: bool = False
    composite: int = 0
    partner: bool = True
    concepts: str = ""
    tokens: bool = False


@dataclass(frozen=True)
class View:
    """One sample as one step sees it; texts a rule could not make are None."""

    image: np.ndarray | Tensor
    caption: str
    negatives: tuple[str | None, ...] = ()
    positives: tuple[str | None, ...] = ()
    concepts: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Batch:
    """Tensors of one step. Masked texts are empty strings encoded like any other and never looked at.

    `concept_span_M2`: first and last position (exclusive) of a concept in its caption's tokens. `concept_ML`: concepts
    as texts of their own. `owner_M`: the image of each concept.
    """

    image_B3HW: Tensor
    text_BL: Tensor
    negative_BKL: Tensor
    mask_BK: Tensor
    positive_BPL: Tensor
    positive_mask_BP: Tensor
    concept_span_M2: Tensor
    concept_ML: Tensor
    owner_M: Tensor
    dropped: dict[str, int] = field(default_factory=dict)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on a device."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return Batch(**{k: v.to(device, non_blocking=True) if isinstance(v, Tensor) else v for k, v in values.items()})

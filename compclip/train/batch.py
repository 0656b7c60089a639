"""Views and batches: what a method wants made of a sample, and the one structure a training step receives.

B images, K negatives, P extra positives, J negative images, L text positions, M concepts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from compclip.base.lazy import torch

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from compclip.text.annotation import Annotation

Rule = Callable[["Annotation", "np.random.Generator"], "str | None"]
TextRule = Callable[["str", "np.random.Generator"], "str | None"]


@dataclass(frozen=True)
class Views:
    """What one step needs of every sample.

    `caption`: the whole caption ("full") or its first sentence of 4 to 34 words ("first"). `composite`: 0 for the
    picture itself, else the number of positive captions p1, p2, … of a CLIC composite; its negative is the cross-image
    swap. `partner`: "random" or "common_noun" (CLIC B.4); "" keeps the single picture (CLIC B1-B4): p2 = p1, and the
    negative exchanges words of its first sentence.
    `concepts`: "" for none, "pooled" for spans in the caption, "encoded" for texts of their own. `tokens`: patches and
    text tokens are needed too.
    `alternatives`: how many other wordings of the caption become positives, drawn of the picture's other captions and
    of its stored paraphrases. `target`: another caption to be read and not encoded, as tokens of the model's own
    tokenizer ("own") or of one in a folder.
    `whole_concept`: a caption without concepts is one itself. `ends`: how sentences end, "kept", or as CLIC's released
    code has it ("clic"): without full stop alone, each with one in a composite. `statistics`: "imagenet" for pictures
    that are normalised by ImageNet's mean and deviation, not the backbone's own.
    `neighbours`: how many of each sample's nearest pictures join the batch, each a row with texts of its own (NegCLIP);
    they are drawn from its `nearest` ones.
    `negative_images`: how many of the pictures that were stored beside the sample are shown as its negatives.
    `bag`: how many texts are drawn, with replacement, of the caption and the dense texts stored beside it (DAC); they
    stand behind the other positives. `bag_rule` makes a negative of each, behind the other negatives.
    """

    negatives: tuple[Rule, ...] = ()
    positives: tuple[Rule, ...] = ()
    caption: str = "first"
    lowercase: bool = False
    composite: int = 0
    partner: str = "random"
    concepts: str = ""
    whole_concept: bool = False
    ends: str = "kept"
    statistics: str = ""
    tokens: bool = False
    alternatives: int = 0
    target: str = ""
    neighbours: int = 0
    nearest: int = 3
    negative_images: int = 0
    bag: int = 0
    bag_rule: TextRule | None = None


@dataclass(frozen=True)
class Teacher:
    """A copy of the towers that is not trained: after each step it is `decay` of itself and the rest of the model.

    1 is a frozen teacher: the backbone as it was.
    """

    decay: float = 1.0


@dataclass(frozen=True)
class Widths:
    """What heads are built for: the joint space's D, how many positions a text has, and how many words there are."""

    joint: int
    context: int
    vocabulary: int


@dataclass(frozen=True)
class View:
    """One sample as one step sees it; texts a rule could not make are None.

    `stand_ins` names what a composite had to take something else for: any partner for one with a common noun, a first
    sentence for a further one.
    """

    image: np.ndarray | Tensor
    caption: str
    negatives: tuple[str | None, ...] = ()
    positives: tuple[str | None, ...] = ()
    concepts: tuple[tuple[int, int], ...] = ()
    negative_images: tuple[np.ndarray | Tensor | None, ...] = ()
    target: str = ""
    stand_ins: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Batch:
    """Tensors of one step. Masked texts are empty strings, masked pictures grey; both are encoded and never looked at.

    `target_BL`: tokens of a text to be read, padded with -1. `concept_span_M2`: first and last position (exclusive) of
    a concept in its caption's tokens. `concept_ML`: concepts as texts of their own. `owner_M`: their images.
    `dropped` counts replaced pictures by reason, `asked` and `had` samples by part (`view_shares`).
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
    negative_image_BJ3HW: Tensor | None = None
    negative_image_mask_BJ: Tensor | None = None
    target_BL: Tensor | None = None
    asked: dict[str, int] = field(default_factory=dict)
    had: dict[str, int] = field(default_factory=dict)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on a device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def __len__(self) -> int:
        return len(self.image_B3HW)

    def rows(self, start: int, stop: int) -> Batch:
        """The images `start` to `stop` (exclusive) with all that is theirs."""
        own_M = (self.owner_M >= start) & (self.owner_M < stop)
        concepts = {
            "concept_span_M2": self.concept_span_M2[own_M],
            "concept_ML": self.concept_ML[own_M] if len(self.concept_ML) else self.concept_ML,
            "owner_M": self.owner_M[own_M] - start,
        }
        images = {f.name: getattr(self, f.name) for f in fields(self) if "_B" in f.name}
        cut = {name: value if value is None else value[start:stop] for name, value in images.items()}
        return replace(self, **cut, **concepts, dropped={}, asked={}, had={})

    def pin_memory(self) -> Batch:
        """In page-locked memory, from where a GPU takes it without waiting."""
        return self._each(lambda tensor: tensor.pin_memory())

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return Batch(**{k: change(v) if isinstance(v, torch.Tensor) else v for k, v in values.items()})

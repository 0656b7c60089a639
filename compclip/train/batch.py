"""Views and batches: one sample as a step sees it, and the one structure that a training step receives.

B images, K negatives, P extra positives, J pictures of a block, L text positions, M concepts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from compclip.base.lazy_torch import torch
from compclip.interface.views import Views as Views
from compclip.text.text_groups import Rule as Rule  # methods of other packages import these two from here

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image
    from torch import Tensor


# blocks of every batch
CAPTION = "captions"
NEGATIVE = "negatives"
POSITIVE = "positives"
CONCEPT = "concepts"
REGIONS = "regions"
REGION_TEXTS = "region_texts"
REGION_CROPS = "region_crops"
NEGATIVE_IMAGES = "negative_images"
# Parts of a composite that may have a stand-in, as counts of samples by part name them.
PARTNER = "partners"
FURTHER = "positives/further"
REGION_LEFT = "region_left"
TARGET = "target"


@dataclass(frozen=True)
class RegionView:
    """A region as a step sees it: its box in shares of the picture that is shown, its texts, and it alone as a picture.

    Texts that are not there are None.
    """

    box: tuple[float, float, float, float]
    texts: tuple[str | None, ...]
    crop: Image | None = None


@dataclass(frozen=True)
class View:
    """One sample as one step sees it; texts a rule could not make are None.

    `texts` are those of groups with a block of their own, and of the `TARGET`. `faults` counts by name what something
    else was taken for (in a composite any partner for one with a common noun, or a first sentence for a further one;
    the next sample where the picture of this one's could not be read), texts that are masked since the model reads them
    as a true one (they differ behind its context), and regions that the picture as it is shown has not.
    """

    image: Image
    caption: str
    negatives: tuple[str | None, ...] = ()
    positives: tuple[str | None, ...] = ()
    concepts: tuple[tuple[int, int], ...] = ()
    negative_images: tuple[Image | None, ...] = ()
    texts: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    regions: tuple[RegionView | None, ...] = ()
    faults: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TextBlock:
    """Texts of a step under one name: tokens [..., L], and which are there [...]; None: all are.

    What the host knows of them stays on the CPU whatever the device: which are encoded, None being all, and how many
    positions the tower needs of each, None being L.
    """

    ids: Tensor
    mask: Tensor | None = None
    encoded: np.ndarray | None = None
    length: np.ndarray | None = None


@dataclass(frozen=True)
class PictureBlock:
    """J pictures beside each one of a batch, under one name: pictures of their own, or boxes in it, in shares of it."""

    mask_BJ: Tensor
    image_BJ3HW: Tensor | None = None
    box_BJ4: Tensor | None = None  # left, upper, right, lower; the whole picture where there is none


@dataclass(frozen=True)
class Concepts:
    """Where a batch's concepts are: first and last position (exclusive) in the caption's tokens, and the image.

    `counts`: of each image, what `owner_M`, in order, says on the device.
    """

    span_M2: Tensor
    owner_M: Tensor
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Batch:
    """Tensors of one step. Masked texts are empty strings, masked pictures grey; no loss looks at either.

    `texts` are encoded in their order, `CAPTION` [B, L] first; `CONCEPT` [M, L] has a row a concept, all others one an
    image. `target_BL`: tokens of a text to be read, padded with -1. `statistics_23`: mean and deviation by which
    pictures of uint8 are normalised; None: they are normalised already. `counts`: "dropped" pictures by reason, samples
    that were "asked" for a part and that "had" it (`view_shares`).
    """

    image_B3HW: Tensor
    texts: Mapping[str, TextBlock]
    concepts: Concepts
    pictures: Mapping[str, PictureBlock] = field(default_factory=dict)
    target_BL: Tensor | None = None
    statistics_23: Tensor | None = None
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.image_B3HW)

    @property
    def text_BL(self) -> Tensor:
        """The captions."""
        return self.texts[CAPTION].ids

    @property
    def negative_BKL(self) -> Tensor:
        """The negatives."""
        return self.texts[NEGATIVE].ids

    @property
    def positive_BPL(self) -> Tensor:
        """The positives."""
        return self.texts[POSITIVE].ids

    def to(self, device: torch.device | str) -> Batch:
        """Return the same batch on a device."""
        return map_tensors(self, lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Batch:
        """Return the batch in page-locked memory, from which a GPU copies without waiting."""
        return map_tensors(self, lambda tensor: tensor.pin_memory())

    def tensors(self) -> list[Tensor]:
        """Return the tensors that are there."""
        tensors: list[Tensor] = []
        map_tensors(self, tensors.append)
        return tensors

    def rows(self, start: int, stop: int) -> Batch:
        """Return the images `start` to `stop` (exclusive) with all texts and pictures of theirs."""
        images = slice(start, stop)
        first = sum(self.concepts.counts[:start])
        counts = self.concepts.counts[images]
        of_images = slice(first, first + sum(counts))
        texts = {name: _cut(block, of_images if name == CONCEPT else images) for name, block in self.texts.items()}
        owner_M = self.concepts.owner_M[of_images] - start
        return Batch(
            image_B3HW=self.image_B3HW[images],
            texts=texts,
            concepts=Concepts(self.concepts.span_M2[of_images], owner_M, counts),
            pictures={name: _cut(block, images) for name, block in self.pictures.items()},
            target_BL=None if self.target_BL is None else self.target_BL[images],
            statistics_23=self.statistics_23,
        )


def _cut(block: Any, rows: slice) -> Any:
    """Return some rows of a block of texts or pictures."""
    return replace(block, **{name: None if value is None else value[rows] for name, value in vars(block).items()})


def map_tensors(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """Return dataclasses and mappings with each of their tensors changed, in order."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {name: map_tensors(item, change) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **map_tensors(vars(value), change))
    return value

"""Views and batches: one sample as a step sees it, and the one structure that a training step receives.

B images, K negatives, P extra positives, J negative images, L text positions, M concepts, R regions, C texts of a
region.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from compclip.base.lazy_torch import torch
from compclip.interface.views import Rule as Rule  # methods of other packages import these two from here
from compclip.interface.views import Views as Views

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image
    from torch import Tensor


# Parts of a composite that may have a stand-in, as counts of samples by part name them.
PARTNER, FURTHER = "partners", "positives/further"


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

    `stand_ins` names what something else was taken for: in a composite any partner for one with a common noun, or a
    first sentence for a further one; the next sample where the picture of this one's could not be read.
    """

    image: Image
    caption: str
    negatives: tuple[str | None, ...] = ()
    positives: tuple[str | None, ...] = ()
    concepts: tuple[tuple[int, int], ...] = ()
    negative_images: tuple[Image | None, ...] = ()
    target: str = ""
    regions: tuple[RegionView | None, ...] = ()
    regions_left: int = 0  # that the picture as it is shown has not
    stand_ins: frozenset[str] = frozenset()
    cut_negatives: int = 0  # masked: the model reads them as a true text, since they differ behind its context
    cut_positives: int = 0  # masked likewise


@dataclass(frozen=True)
class Batch:
    """Tensors of one step. Masked texts are empty strings, masked pictures grey; no loss looks at either.

    Pictures are encoded all the same, texts not: `encoded_BK` and `encoded_BP` are the masks as the host knows them.

    `target_BL`: tokens of a text to be read, padded with -1. `concept_span_M2`: first and last position (exclusive) of
    a concept in its caption's tokens. `concept_ML`: concepts as texts of their own. `owner_M`: their images.
    `statistics_23`: mean and deviation by which pictures of uint8 are normalised; None: they are normalised already.
    `region_box_BR4`: left, upper, right, lower in shares of the picture; the whole one where there is no region.
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
    statistics_23: Tensor | None = None
    # of every text of an image, captions and concepts left out, whether it is encoded; on the CPU whatever the device
    encoded_BK: np.ndarray | None = None  # negatives; None: all
    encoded_BP: np.ndarray | None = None  # positives
    # positions that the tower needs of each text, on the CPU as well; None: all
    length_B: np.ndarray | None = None
    length_BK: np.ndarray | None = None
    length_BP: np.ndarray | None = None
    length_M: np.ndarray | None = None  # of concepts as texts
    region_box_BR4: Tensor | None = None  # these and the next: None where no method asks for regions
    region_mask_BR: Tensor | None = None
    region_text_BRCL: Tensor | None = None
    region_text_mask_BRC: Tensor | None = None
    region_crop_BR3HW: Tensor | None = None
    encoded_BRC: np.ndarray | None = None  # as `encoded_BK`
    length_BRC: np.ndarray | None = None
    concept_counts: tuple[int, ...] = ()  # of each image: what `owner_M`, in order, says on the device

    def to(self, device: torch.device | str) -> Batch:
        """Return the same batch on a device."""
        return self._map_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def __len__(self) -> int:
        return len(self.image_B3HW)

    def rows(self, start: int, stop: int) -> Batch:
        """Return the images `start` to `stop` (exclusive) with all texts and masks of theirs."""
        counts = self.concept_counts or tuple(self.owner_M.bincount(minlength=len(self)).tolist())
        first = sum(counts[:start])
        of_rows = slice(first, first + sum(counts[start:stop]))
        concepts: dict[str, Any] = {
            "concept_span_M2": self.concept_span_M2[of_rows],
            "concept_ML": self.concept_ML[of_rows],
            "owner_M": self.owner_M[of_rows] - start,
            "concept_counts": counts[start:stop],
            "length_M": None if self.length_M is None else self.length_M[of_rows],
        }
        images = {f.name: getattr(self, f.name) for f in fields(self) if "_B" in f.name}
        cut: dict[str, Any] = {name: value if value is None else value[start:stop] for name, value in images.items()}
        return replace(self, **cut, **concepts, dropped={}, asked={}, had={})

    def tensors(self) -> list[Tensor]:
        """Return the tensors that are there."""
        return [value for f in fields(self) if isinstance(value := getattr(self, f.name), torch.Tensor)]

    def pin_memory(self) -> Batch:
        """Return the batch in page-locked memory, from which a GPU copies without waiting."""
        return self._map_tensors(lambda tensor: tensor.pin_memory())

    def _map_tensors(self, change: Callable[[Tensor], Tensor]) -> Batch:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        changed: dict[str, Any] = {name: change(v) for name, v in values.items() if isinstance(v, torch.Tensor)}
        return replace(self, **changed)

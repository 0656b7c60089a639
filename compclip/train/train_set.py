"""What training asks of a data set, wherever that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np

    from compclip.data.place import Place
    from compclip.data.sample import Sample
    from compclip.text.annotation import Annotation

Numbered = tuple[int, int]  # a sample and which of its captions


class TrainSet(Protocol):
    """Samples and their annotated captions, by number."""

    sizes: Sequence[int]  # samples of each shard
    wide: np.ndarray  # of each sample, whether its picture is at least as wide as it is high

    def __len__(self) -> int:
        """Samples."""

    def sample(self, index: int) -> Sample:
        """A sample; its captions are asked for one by one."""

    def captions(self, index: int) -> int:
        """How many captions a sample has."""

    def negative_images(self, index: int) -> Sequence[Place]:
        """The pictures that were stored beside a sample as its negatives, in the order of its stored negative texts."""

    def annotation(self, index: int, which: int) -> Annotation:
        """One of a sample's captions."""

    def nouns(self, index: int, which: int) -> list[str]:
        """The nouns of the first sentence of one of a sample's captions."""

    def sharing(self, noun: str, wide: bool) -> Sequence[int] | np.ndarray:
        """The numbers of all captions of wide (or tall) pictures whose first sentence has a noun; rising."""

    def place(self, caption: int) -> Numbered:
        """Sample and which of its captions, of a caption by its number in the whole data set."""

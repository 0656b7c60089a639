"""BLIP's image-text matching head (Li et al., ICML 2022, arXiv:2201.12086) in a local folder of transformers.

A pair's score is the probability of "match", of both read together; a model of its kind has no vectors to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compclip.evaluate.models.transformers_dual import open_folder

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

MATCH = 1  # of the head's two outputs


@dataclass(frozen=True)
class MatchingHead:
    """A model of BLIP for retrieval, and its processor."""

    model: Any
    processor: Any

    def score_pairs(self, pictures: Sequence[Image], texts: Sequence[str]) -> Tensor:
        """Return the probability that each picture and its text match, [B]."""
        inputs = self.processor(
            images=list(pictures), text=list(texts), padding=True, truncation=True, return_tensors="pt"
        ).to(self.model.device)
        return self.model(**inputs).itm_score.softmax(dim=-1)[:, MATCH]


def load(ref: str, device: str) -> MatchingHead:
    """Open a folder of BLIP for retrieval. Raises UserError where it cannot be opened."""
    return MatchingHead(*open_folder(ref, "BlipForImageTextRetrieval", device))

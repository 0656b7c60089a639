"""BLIP's two towers (Li et al., ICML 2022, arXiv:2201.12086) in a local folder of transformers, before its head.

What its contrastive loss compares: a picture's and a text's first token, projected. `blip_itm` reads both together.
B pictures or texts, D dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compclip.evaluate.models.transformers_dual import open_folder

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor


@dataclass(frozen=True)
class ContrastiveTowers:
    """A model of BLIP for retrieval, and its processor."""

    model: Any
    processor: Any

    def encode_images(self, pictures: Sequence[Image]) -> Tensor:
        """Return vectors [B, D] of pictures."""
        inputs = self.processor(images=list(pictures), return_tensors="pt").to(self.model.device)
        return self.model.vision_proj(self.model.vision_model(**inputs).last_hidden_state[:, 0])

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return vectors [B, D] of texts, cut where the model's tokenizer cuts them."""
        inputs = self.processor(text=list(texts), padding=True, truncation=True, return_tensors="pt")
        tokens = {name: inputs[name].to(self.model.device) for name in ("input_ids", "attention_mask")}
        return self.model.text_proj(self.model.text_encoder(**tokens).last_hidden_state[:, 0])


def load(ref: str, device: str) -> ContrastiveTowers:
    """Open a folder of BLIP for retrieval. Raises UserError where it cannot be opened."""
    return ContrastiveTowers(*open_folder(ref, "BlipForImageTextRetrieval", device))

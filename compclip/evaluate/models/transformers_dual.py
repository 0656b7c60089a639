"""Two towers of transformers in a local folder: CLIP, SigLIP, SigLIP 2 (NaFlex too), ALIGN, FLAVA, others of AutoModel.

B pictures or texts, D dim.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.errors import UserError
from compclip.evaluate.foreign_models import explaining

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor


@dataclass(frozen=True)
class TwoTowers:
    """A model with `get_image_features` and `get_text_features`, and its processor."""

    model: Any
    processor: Any

    def encode_images(self, pictures: Sequence[Image]) -> Tensor:
        """Return vectors [B, D] of pictures, prepared as the model's own processor does."""
        inputs = self.processor(images=list(pictures), return_tensors="pt").to(self.model.device)
        return _pooled(self.model.get_image_features(**inputs))

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return vectors [B, D] of texts, padded to the longest that the model reads and cut there."""
        length = self.model.config.text_config.max_position_embeddings
        inputs = self.processor(
            text=list(texts), padding="max_length", truncation=True, max_length=length, return_tensors="pt"
        )
        return _pooled(self.model.get_text_features(**inputs.to(self.model.device)))


def _pooled(features: Any) -> Tensor:
    """Return the vectors of a model's answer, which newer versions of transformers wrap.

    FLAVA projects all tokens [B, N, D]; its contrastive loss compares the first.
    """
    vectors = getattr(features, "pooler_output", features)
    return vectors[:, 0] if vectors.ndim == 3 else vectors


def require_transformers() -> None:
    """Raise UserError where the package is not there."""
    if importlib.util.find_spec("transformers") is None:
        raise UserError("--loader: needs the package transformers; run `pip install compclip[captioners]`")


def open_folder(folder: str, model_class: str, device: str) -> tuple[Any, Any]:
    """Return model, in evaluation, and processor of a folder in transformers' format, on a device.

    `model_class`: of transformers, by its name. Raises UserError where the package or the folder is missing, or
    transformers cannot open it; weights are read from safetensors alone.
    """
    require_transformers()
    if not (Path(folder) / "config.json").is_file():
        raise UserError(f"{folder}: no config.json there; give a model's folder in transformers' format")
    import transformers

    offline: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with explaining(f"{folder}: transformers cannot open it", "give a whole model's folder"):
        model = getattr(transformers, model_class).from_pretrained(folder, use_safetensors=True, **offline)
        processor = transformers.AutoProcessor.from_pretrained(folder, **offline)
    return model.eval().to(device), processor


def load(ref: str, device: str) -> TwoTowers:
    """Open a folder in transformers' format. Raises UserError where it cannot be opened, or has no two towers."""
    model, processor = open_folder(ref, "AutoModel", device)
    if not (hasattr(model, "get_image_features") and hasattr(model, "get_text_features")):
        raise UserError(f"{ref}: {type(model).__name__} has no towers for pictures and texts; give another loader")
    return TwoTowers(model, processor)

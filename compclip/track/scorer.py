"""A checkpoint as MLflow loads it: image-text pairs in, cosines out. MLflow knows it as its `loader_module`.

What scores is imported when it is needed: whoever only logs models does not wait for it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from compclip.base.errors import UserError

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel


class Scorer:
    """Cosine similarity of image-text pairs by one checkpoint."""

    def __init__(self, model: ClipModel) -> None:
        self.model = model

    def predict(self, pairs: Any, params: dict[str, Any] | None = None) -> np.ndarray:
        """Return cosines [N] of a DataFrame's rows: `image` (a path, or a picture file's bytes) and `text`.

        Of a model with a head they are what it has in the place of cosines.
        Raises UserError naming the first picture that cannot be read.
        """
        from compclip.evaluate import pair_scorers

        texts = [str(text) for text in pairs["text"]]
        with tempfile.TemporaryDirectory() as folder:
            refs = [_path(image, Path(folder)) for image in pairs["image"]]
            targets = pair_scorers.encode(self.model, refs, texts)
            for row, ref in enumerate(refs):
                if ref in targets.failed:
                    source = ref if isinstance(pairs["image"].iloc[row], str) else "its bytes"
                    why = targets.failed[ref]
                    raise UserError(f"row {row}: image {why} ({source}); give a picture's path or bytes")
            return targets.matches(refs, texts)


def _path(image: Any, folder: Path) -> str:
    """Return a path as it is; bytes become a file of `folder`, equal ones the same file."""
    if isinstance(image, (str, os.PathLike)):
        return os.fspath(image)
    raw = bytes(image)
    path = folder / hashlib.sha256(raw).hexdigest()
    path.write_bytes(raw)
    return str(path)


def _load_pyfunc(path: str) -> Scorer:
    """Load the scorer; MLflow calls this with the checkpoint's folder."""
    from compclip.model import backbone

    return Scorer(backbone.load(path))

"""A checkpoint of a tiny model with random weights, made once a process."""

import functools
import json
from pathlib import Path
from typing import Any


@functools.cache
def tiny() -> Any:
    """It, opened."""
    from compclip.model import backbone

    return backbone.load(tiny_folder())


@functools.cache
def tiny_folder() -> Path:
    """A checkpoint of a tiny model with random weights, made once."""
    import tempfile

    from compclip.model import backbone
    from tests.tiny_project import TINY

    folder = Path(tempfile.mkdtemp(prefix="fuzz-model-"))
    tiny: dict[str, Any] = json.loads(json.dumps(TINY))
    tiny["text_cfg"]["context_length"] = 16
    (folder / "tiny.json").write_text(json.dumps(tiny))
    backbone.create(str(folder / "tiny.json")).save(folder / "model")
    return folder / "model"

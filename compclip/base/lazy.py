"""Packages that are imported when something of them is first used.

Most commands look at files and wait; what trains or scores pays for its imports alone.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from types import ModuleType
from typing import Any

from compclip.base import lean


class Lazy(ModuleType):
    """Stands for a package and is not it: whoever walks over `sys.modules` wakes nothing up."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    @functools.cached_property
    def _module(self) -> ModuleType:
        return importlib.import_module(self.__name__)


class LazyOpenClip(Lazy):
    """open_clip as `lean` imports it."""

    @functools.cached_property
    def _module(self) -> ModuleType:
        return lean.open_clip()


def package(name: str, kind: type[Lazy] = Lazy) -> ModuleType:
    """The installed package `name`; its own code runs at the first access to an attribute.

    Raises ModuleNotFoundError at once where there is none.
    """
    if importlib.util.find_spec(name) is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return kind(name)


open_clip, torch = package("open_clip", LazyOpenClip), package("torch")
functional = Lazy("torch.nn.functional")  # to look whether a part is there would import the whole

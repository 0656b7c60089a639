"""Packages that are imported when something of them is first used.

Most commands look at files and wait; what trains or scores pays for its imports alone.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType


def package(name: str) -> ModuleType:
    """The installed package `name`; its own code runs at the first access to an attribute.

    Raises ModuleNotFoundError at once where there is none.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


open_clip = package("open_clip")

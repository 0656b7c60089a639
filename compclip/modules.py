"""Plug-ins by module name: a new method, benchmark, source or captioner is a new file, no list to edit."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from compclip.errors import unknown


def names(package: str) -> list[str]:
    """The public modules of `package`, sorted."""
    path = importlib.import_module(package).__path__
    return sorted(m.name for m in pkgutil.iter_modules(path) if not m.name.startswith("_"))


def find(package: str, name: str) -> ModuleType:
    """Import `package.name`. Raises UserError with close matches when there is no such module."""
    known = names(package)
    if name not in known:
        raise unknown(package.rpartition(".")[2].rstrip("s").replace("_", " "), name, known)
    return importlib.import_module(f"{package}.{name}")

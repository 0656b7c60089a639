"""Plug-ins by module name: a new method, benchmark, source or captioner is a new file, no list to edit.

Other packages bring theirs as entry points of the groups `compclip.methods`, `compclip.benchmarks`, `compclip.sources`
and `compclip.captioners`: a name, and the module that it stands for.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from importlib import metadata
from types import ModuleType

from compclip.base.errors import UserError, unknown

METHODS, BENCHMARKS = "compclip.methods", "compclip.benchmarks"
SOURCES, CAPTIONERS = "compclip.data.sources", "compclip.data.captioners"


def names(package: str) -> list[str]:
    """The plug-ins of `package` by name, ours and other packages', sorted."""
    return sorted({*_own(package), *_others(_group(package))})


def locate(package: str, name: str) -> str:
    """The module that a plug-in's name stands for; it is not imported.

    Raises UserError with close matches where there is none, and for a name that two packages give.
    """
    own, others = _own(package), _others(_group(package)).get(name, ())
    if name in own and not others:
        return f"{package}.{name}"
    if name in own or len(others) > 1:
        givers = " and ".join([*(["compclip"] * (name in own)), *(f"{o[1]} ({o[0]})" for o in others)])
        raise UserError(f"{_kind(package)} {name!r}: is given by {givers}; uninstall one")
    if not others:
        raise unknown(_kind(package), name, names(package))
    return others[0][0]


def find(package: str, name: str) -> ModuleType:
    """Import the module of a plug-in. Raises UserError where there is none, or where another package's fails."""
    module = locate(package, name)
    if module.startswith(f"{package}."):
        return importlib.import_module(module)
    try:
        return importlib.import_module(module)
    except Exception as error:
        raise UserError(
            f"{_kind(package)} {name!r}: {module}: {type(error).__name__}: {error}; mend that package"
        ) from error


def _kind(package: str) -> str:
    return package.rpartition(".")[2].removesuffix("s").replace("_", " ")


def _group(package: str) -> str:
    """The entry points' group: the last part names it, whatever folder ours lie in."""
    return f"compclip.{package.rpartition('.')[2]}"


@functools.cache
def _own(package: str) -> frozenset[str]:
    path = importlib.import_module(package).__path__
    return frozenset(m.name for m in pkgutil.iter_modules(path) if not m.name.startswith("_"))


@functools.cache
def _others(group: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """By name: the modules that other packages give, and the packages."""
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for point in metadata.entry_points(group=group):
        giver = point.dist.name if point.dist else "?"
        given = (point.value, giver)
        if given not in found.get(point.name, ()):  # a package that is on the path twice gives the same twice
            found[point.name] = (*found.get(point.name, ()), given)
    return found

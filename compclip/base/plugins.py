"""Plug-ins by module name: a new method, benchmark, source, captioner or sampler is a new file, no list to edit.

Other packages bring theirs as entry points of the groups `compclip.methods`, `compclip.benchmarks`, `compclip.sources`,
`compclip.captioners` and `compclip.samplers`: a name, and the module that it stands for. Nothing of theirs is imported
before it is named.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from dataclasses import MISSING, fields, is_dataclass
from types import ModuleType
from typing import NamedTuple

from compclip.base.errors import UserError, one_line, unknown

METHODS, BENCHMARKS = "compclip.methods", "compclip.benchmarks"
SOURCES, CAPTIONERS = "compclip.data.sources", "compclip.data.captioners"
SAMPLERS = "compclip.sweep.samplers"
# What a module must offer; the tests of ours hold them to more.
NEEDS = {
    METHODS: ("TRAINS", "Config", "views", "loss"),
    BENCHMARKS: ("load",),
    SOURCES: ("records",),
    CAPTIONERS: ("opened",),
    SAMPLERS: ("sampler",),
}
TRAINING = ("views", "loss")  # not of a method that trains nothing
NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)  # a dot would start a variant's name, a dash a backbone's


class Given(NamedTuple):
    """A module that another package gives under a name, and the package."""

    module: str
    package: str


def names(package: str) -> list[str]:
    """The plug-ins of `package` by name, ours and other packages', sorted."""
    return sorted({*_own(package), *filter(NAME.fullmatch, _others(_group(package)))})


def locate(package: str, name: str) -> str:
    """The module that a plug-in's name stands for; it is not imported.

    Raises UserError with close matches where there is none, and for an entry point that cannot be meant: a name that
    two packages give, one that cannot be written in params.yaml, or something else than a module.
    """
    own, others = _own(package), _others(_group(package)).get(name, ())
    if name in own and not others:
        return f"{package}.{name}"
    if name in own or len(others) > 1:
        givers = " and ".join([*(["compclip"] * (name in own)), *(f"{o.package} ({o.module})" for o in others)])
        raise UserError(f"{_kind(package)} {name!r}: is given by {givers}; uninstall one")
    if not others:
        raise unknown(_kind(package), name, names(package))
    return _module(f"{_kind(package)} {name!r}", name, others[0])


def _module(what: str, name: str, given: Given) -> str:
    if not NAME.fullmatch(name):
        raise UserError(f"{what}: {given.package}: a name is a letter, then letters, digits and _; mend that package")
    if not all(part.isidentifier() for part in given.module.split(".")):
        raise UserError(f"{what}: {given.package}: {given.module!r} is no module's name; mend that package")
    return given.module


def find(package: str, name: str) -> ModuleType:
    """Import the module of a plug-in.

    Raises UserError where there is none, and where another package's fails or lacks what every such module offers.
    """
    module = locate(package, name)
    if module == f"{package}.{name}":
        return importlib.import_module(module)
    where = f"{_kind(package)} {name!r}: {module}"
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(f"{where}: {one_line(f'{type(error).__name__}: {error}')}; mend that package") from error
    if fault := _fault(package, found):
        raise UserError(f"{where}: {fault}; mend that package")
    return found


def _fault(package: str, module: ModuleType) -> str:
    """What another package's module lacks; nothing for a good one."""
    spared = () if getattr(module, "TRAINS", True) else TRAINING
    lacking = [need for need in NEEDS[package] if need not in spared and not hasattr(module, need)]
    if lacking:
        return f"has no {' and no '.join(lacking)}"
    config = getattr(module, "Config", None)
    if config is None:
        return ""
    if not (isinstance(config, type) and is_dataclass(config)):
        return "Config is no dataclass"
    bare = [f.name for f in fields(config) if f.default is MISSING and f.default_factory is MISSING]
    return f"Config.{bare[0]} has no default" if bare else ""


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
def _others(group: str) -> dict[str, tuple[Given, ...]]:
    """What other packages give, by name."""
    from importlib import metadata  # as slow as all of ours that a finished stage imports

    found: dict[str, tuple[Given, ...]] = {}
    for point in metadata.entry_points(group=group):
        given = Given(point.value, point.dist.name if point.dist else "?")
        if given not in found.get(point.name, ()):  # a package that is on the path twice gives the same twice
            found[point.name] = (*found.get(point.name, ()), given)
    return found

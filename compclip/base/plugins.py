"""Plug-ins by module name: a new method, benchmark or sampler is a new file, no list to edit.

Other packages bring theirs as entry points of the groups `compclip.methods`, `compclip.benchmarks`, `compclip.sources`,
`compclip.captioners`, `compclip.samplers` and `compclip.models`: a name, and the module that it stands for. Nothing of
theirs is imported before it is named.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import pkgutil
import re
import traceback
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from compclip.base.errors import UserError, one_line, unknown

METHODS = "compclip.methods"
BENCHMARKS = "compclip.benchmarks"
SOURCES = "compclip.prepare.sources"
CAPTIONERS = "compclip.prepare.captioners"
SAMPLERS = "compclip.sweep.samplers"
MODELS = "compclip.evaluate.models"
# What a module must offer; the tests of ours hold them to more.
NEEDS = {
    METHODS: ("TRAINS", "Config", "views", "loss"),
    BENCHMARKS: ("METRICS", "load"),
    SOURCES: ("records",),
    CAPTIONERS: ("opened",),
    SAMPLERS: ("sampler",),
    MODELS: ("load",),
}
FRAME = re.compile(r'^ *File "(.+)", line (\d+)', re.MULTILINE)  # of a traceback
TRAINING = ("views", "loss")  # not of a method that trains nothing
NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)  # a dot would start a variant's name, a dash a backbone's


class EntryPoint(NamedTuple):
    """A module that another package gives under a name, and the package."""

    module: str
    package: str


def list_plugins(package: str) -> list[str]:
    """Return the names of the plug-ins of `package`, ours and other packages', sorted."""
    return sorted({*_own_plugins(package), *filter(NAME.fullmatch, _list_entry_points(package))})


def locate_plugin(package: str, name: str, where: str = "") -> str:
    """Return the name of a plug-in's module; it is not imported.

    Raises UserError with close matches where there is none, and for an entry point that cannot be meant: a name that
    two packages give, one that cannot be written in params.yaml, or something else than a module.
    """
    entry_points = _list_entry_points(package).get(name, ())
    what = f"{kind_name(package)} {name!r}"
    providers = [f"{point.package} ({point.module})" for point in entry_points]
    if name in _own_plugins(package):
        providers.insert(0, "compclip")
    if not providers:
        raise unknown(kind_name(package), name, list_plugins(package), where)
    if len(providers) > 1:
        raise UserError(f"{what}: is given by {' and '.join(providers)}; uninstall one")
    if not entry_points:
        return f"{package}.{name}"
    module, giver = entry_points[0]
    fault = "" if NAME.fullmatch(name) else "a name is a letter, then letters, digits and _"
    if not all(map(str.isidentifier, module.split("."))):
        fault = f"{module!r} is no module's name"
    if fault:
        raise UserError(f"{what}: {giver}: {fault}; repair that package")
    return module


def load_plugin(package: str, name: str, where: str = "") -> ModuleType:
    """Import the module of a plug-in.

    Raises UserError where there is none, and where it fails or lacks what every such module offers.
    """
    module = locate_plugin(package, name, where)
    what = f"{kind_name(package)} {name!r}: {module}"
    try:
        plugin = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, UserError):
            raise
        fault = describe_failure(error) or one_line(f"{type(error).__name__}: {error}")
        raise UserError(f"{what}: {fault}; repair that module, or see the traceback with -v") from error
    fault = _find_fault(package, plugin)
    if fault:
        raise UserError(f"{what}: {fault}; repair that module")
    return plugin


def describe_failure(error: BaseException) -> str:
    """Return `file:line: cause` of an error that arose in a plug-in, or in a library that one called; else "".

    A plug-in is a module of ours that is found by its name, or anything in a package that gives one.
    """
    text = "".join(traceback.format_exception(error, chain=False))
    if type(error.__cause__).__name__ == "_RemoteTraceback":
        text = str(error.__cause__)  # the lines of a pool's worker
    ours = Path(__file__).parents[1]
    place = ""
    for name, line in FRAME.findall(text):
        path = Path(name)
        if _is_plugin_file(path):
            place = f"{path}:{line}: "
        elif path.is_relative_to(ours) and not path.is_relative_to(Path(__file__)):
            place = ""
    return place and place + one_line(f"{type(error).__name__}: {error}")


def _is_plugin_file(path: Path) -> bool:
    """Return whether a file is a plug-in's of ours, or lies in a package that another plug-in is of."""
    if path.parent in {_folder(package) for package in NEEDS}:
        return True
    points = itertools.chain.from_iterable(itertools.chain.from_iterable(_list_entry_points(p).values() for p in NEEDS))
    top_names = {point.module.partition(".")[0] for point in points}
    return any(path.is_relative_to(file.parent) for file in map(_find_file, top_names) if file)


def _folder(package: str) -> Path:
    """Return the folder of a package of ours; nothing is imported."""
    return Path(__file__).parents[1].joinpath(*package.split(".")[1:])


def _find_file(name: str) -> Path | None:
    """Return the file of a top-level package; a module without a folder of its own stands for itself."""
    spec = importlib.util.find_spec(name)
    file = Path(spec.origin) if spec and spec.origin else None
    return file if file and file.name == "__init__.py" else file and file / name


def _find_fault(package: str, module: ModuleType) -> str:
    """Return what is wrong with another package's module; "" for a good one."""
    spared = () if getattr(module, "TRAINS", True) else TRAINING
    absent = [need for need in NEEDS[package] if need not in spared and not hasattr(module, need)]
    if absent:
        return f"has no {' and no '.join(absent)}"
    config = getattr(module, "Config", None)
    if config is None:
        return ""
    if not (isinstance(config, type) and is_dataclass(config)):
        return "Config is no dataclass"
    bare = [f.name for f in fields(config) if f.default is MISSING and f.default_factory is MISSING]
    return f"Config.{bare[0]} has no default" if bare else ""


def kind_name(package: str) -> str:
    """Return what plug-ins of a package are called, as `method`."""
    return package.rpartition(".")[2].removesuffix("s").replace("_", " ")


@functools.cache
def _own_plugins(package: str) -> frozenset[str]:
    path = importlib.import_module(package).__path__
    return frozenset(m.name for m in pkgutil.iter_modules(path) if not m.name.startswith("_"))


@functools.cache
def _list_entry_points(package: str) -> dict[str, tuple[EntryPoint, ...]]:
    """Return other packages' entry points by name; their group is compclip. and the last word of ours."""
    from importlib import metadata  # as slow as all of ours that a finished stage imports

    by_name: dict[str, tuple[EntryPoint, ...]] = {}
    for point in metadata.entry_points(group=f"compclip.{package.rpartition('.')[2]}"):
        entry_point = EntryPoint(point.value, point.dist.name if point.dist else "?")
        if entry_point not in by_name.get(point.name, ()):  # a package that is on the path twice gives the same twice
            by_name[point.name] = (*by_name.get(point.name, ()), entry_point)
    return by_name

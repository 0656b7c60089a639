"""List the names that params.yaml may use: methods, benchmarks, backbones, captioners, samplers, studies, grids ….

compclip list                      all kinds, with the names of each
compclip list KIND [NAME ...]      each name with a line, parameters with defaults, files present (+) and missing (-)
compclip list [KIND] --markdown    tables of names and lines, as in docs/lists.md

Plug-ins of other packages are shown with the name of their package. The files of a benchmark are those in params.yaml.
If it has none, they are those of the package's grid of all benchmarks, where `compclip fetch` puts them.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from compclip.base import plugins, yaml_text
from compclip.base.command_line import CommandParser
from compclip.base.errors import entry, unknown
from compclip.base.files import read_text
from compclip.config import columns, project_files, read
from compclip.config.sections import BenchmarkSection, Params

STUDIES = Path("experiments/studies")
LONGEST = 60  # characters of a default that are shown


@dataclass(frozen=True)
class Listed:
    """An entry of a list. `files`: path -> whether it exists; `package`: the package that provides the plug-in."""

    name: str
    summary: str
    package: str = "compclip"
    parameters: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bool] = field(default_factory=dict)
    group: str = ""


def list_plugins(package: str) -> Iterator[Listed]:
    """Yield the plug-ins in a package, with the parameters of their `Config`."""
    for name in plugins.list_plugins(package):
        module = plugins.load_plugin(package, name)
        config = getattr(module, "Config", None)
        parameters = {f.name: _default(f) for f in fields(config)} if config else {}
        summary = (inspect.getdoc(module) or "").partition("\n")[0].rstrip(".")
        yield Listed(name, summary, module.__name__.partition(".")[0], parameters)


def _default(parameter: Field) -> Any:
    return parameter.default_factory() if parameter.default_factory is not MISSING else parameter.default


def list_benchmarks(params: Params) -> Iterator[Listed]:
    """Yield each benchmark's module with its group, and with the files of the sections that use it."""
    usual = read.load_params(project_files.find_source() / project_files.EVERY_BENCHMARK).benchmarks
    for module in list_plugins(plugins.BENCHMARKS):
        paths = _find_paths(module.name, params.benchmarks) or _find_paths(module.name, usual)
        yield replace(module, files=_look_for(paths), group=columns.find_group(module.name))


def _find_paths(module: str, sections: Mapping[str, BenchmarkSection]) -> list[str]:
    paths = []
    for name, section in sections.items():
        if (section.benchmark or name) == module:
            paths += [section.path, section.images]
    return paths


def _look_for(paths: Sequence[str]) -> dict[str, bool]:
    return {path: Path(path).exists() for path in paths}


def list_backbones(params: Params) -> Iterator[Listed]:
    """Yield the backbones of params.yaml; their weights may be a file, a tag of open_clip or a name on the hub."""
    for name, backbone in params.backbones.items():
        weights = backbone.weights
        is_file = "/" in weights and not weights.startswith(("hf-hub:", "local-dir:"))
        yield Listed(name, f"{backbone.model}, {weights}", "", {}, _look_for([weights] if is_file else []))


def list_studies(params: Params) -> Iterator[Listed]:
    """Yield the studies of the project; outside of a project, those of the package."""
    for path, raw in _read_files(STUDIES):
        parameters = {"method": raw.get("method"), "space": list(raw.get("space") or {})}
        yield Listed(path.stem, _comment(path), "", parameters)


def list_grids(params: Params) -> Iterator[Listed]:
    """Yield the grids of the project, else those of the package, with their numbers of cells and benchmarks."""
    for path, raw in _read_files(read.GRIDS):
        cells = math.prod(map(len, raw["grid"].values()))
        evaluated = (raw.get("evaluate") or {}).get("benchmarks") or ()
        yield Listed(path.stem, _comment(path), "", {"cells": cells, "benchmarks": len(evaluated)})


def _find_files(folder: Path) -> list[Path]:
    folder = folder if folder.is_dir() else project_files.find_source() / folder
    return sorted(folder.glob("*.yaml"))


def _read_files(folder: Path) -> Iterator[tuple[Path, dict]]:
    for path in _find_files(folder):
        yield path, yaml_text.to_unresolved(read.read_with_overrides(path, ()))


def _comment(path: Path) -> str:
    """Return the first sentence of the comment at the beginning of a file."""
    text = " ".join(line.lstrip("# ") for line in read.read_head(read_text(path)).splitlines())
    return re.split(r"(?<!Eq)(?<!Sec)\. ", text)[0].rstrip(".")


PACKAGES = {plugins.kind_name(package) + "s": package for package in plugins.NEEDS}
FOLDERS = {"studies": STUDIES, "grids": read.GRIDS}
LISTS: Mapping[str, Callable[[Params], Iterator[Listed]]] = {
    "benchmarks": list_benchmarks,
    "backbones": list_backbones,
    "studies": list_studies,
    "grids": list_grids,
}
KINDS = tuple(dict.fromkeys((*PACKAGES, *LISTS)))


def list_names(kind: str, params: Params) -> list[str]:
    """Return the names of a kind, without importing plug-ins."""
    if kind in PACKAGES:
        return plugins.list_plugins(PACKAGES[kind])
    if kind in FOLDERS:
        return [path.stem for path in _find_files(FOLDERS[kind])]
    return list(params.backbones)


def list_kind(kind: str, names: Sequence[str], params: Params) -> list[Listed]:
    """Return the entries of a kind with these `names`, or all of them.

    Raises UserError for an unknown kind or name.
    """
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    items = LISTS[kind](params) if kind in LISTS else list_plugins(PACKAGES[kind])
    listed = {item.name: item for item in items}
    for name in names:
        if name not in listed:
            raise unknown(kind.removesuffix("s"), name, listed)
    return [listed[name] for name in names or listed]


def format_listed(item: Listed, width: int) -> str:
    """Return a line with name and summary; below it parameters, and files that exist (+) or are missing (-)."""
    package = "" if item.package in ("", "compclip") else f" [{item.package}]"
    lines = [f"{item.name:<{width}}  {item.summary}{item.group and f' ({item.group})'}{package}"]
    if item.parameters:
        values = [f"{name}={_shorten(json.dumps(value, default=str))}" for name, value in item.parameters.items()]
        lines += _wrap(values, width + 2)
    lines += [f"{'':<{width}}  {'+' if is_there else '-'} {path}" for path, is_there in item.files.items()]
    return "\n".join(lines)


def format_markdown(kind: str, listed: Iterable[Listed]) -> str:
    """Return a Markdown table of names and summaries."""
    return "\n".join([f"| {kind} | |", "|---|---|", *(f"| `{item.name}` | {item.summary} |" for item in listed)])


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 2]} …"


def _wrap(words: Sequence[str], indent: int, columns: int = 118) -> list[str]:
    lines = [" " * indent]
    for word in words:
        if len(lines[-1]) + len(word) > columns and lines[-1].strip():
            lines.append(" " * indent)
        lines[-1] += word + "  "
    return [line.rstrip() for line in lines]


def main(argv: list[str]) -> int:
    """Print all kinds with their names, or the entries of one kind."""
    parser = CommandParser(prog="compclip list", description=__doc__, example="methods fsc_clip")
    parser.add_argument("kind", nargs="?", default="", help=", ".join(KINDS))
    parser.add_argument("names", nargs="*", metavar="name", help="names to show; default: all")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table of names and lines")
    parser.add_grid()
    args = parser.parse_args(argv)
    params = read.load_params(project_files.find_params(args.params))
    if args.markdown:
        kinds = [args.kind] if args.kind else KINDS
        print(*(format_markdown(kind, list_kind(kind, args.names, params)) for kind in kinds), sep="\n\n")
    elif args.kind:
        listed = list_kind(args.kind, args.names, params)
        width = max((len(item.name) for item in listed), default=0)
        print(*(format_listed(item, width) for item in listed), sep="\n")
    else:
        for kind in KINDS:
            print(kind, *_wrap(list_names(kind, params), 2), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

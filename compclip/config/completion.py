"""Complete words on the command line; `eval "$(register-python-argcomplete compclip)"` enables it in a shell.

The shell starts `compclip` at each Tab, so importing the commands would be too slow. Their arguments are in
completion.json instead, written by `python -m perf.completion_table`. Names of the grid are read from params.yaml.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from compclip.base.command_line import GRID_FILE, CommandParser

PACKAGE = Path(__file__).parent.parent
# By command: the names of each argument, and its `nargs` or its choices.
TABLE = Path(__file__).with_suffix(".json")
GRIDS = "experiments/grids"


def complete() -> None:
    """Print the completions of the word at the cursor, and end the process."""
    import argcomplete

    argcomplete.autocomplete(build_parser(json.loads(TABLE.read_text(encoding="utf-8"))))


def build_parser(table: dict[str, dict[str, Any]]) -> CommandParser:
    """Return one parser for all commands; a command of two words is a subcommand of its first word."""
    parsers = {"": CommandParser(prog="compclip")}
    choices: dict[str, Any] = {}
    firsts: dict[str, dict[str, Any]] = {command.partition(" ")[0]: {} for command in table}
    for command, arguments in (firsts | table).items():
        parent, _, word = command.rpartition(" ")
        choices[parent] = choices.get(parent) or parsers[parent].add_subparsers()
        parsers[command] = choices[parent].add_parser(word)
        for names, kind in arguments.items():
            action = _add_argument(parsers[command], names.split("/"), kind)
            lister = LISTERS.get(f"{command} {names}") or LISTERS.get(names)
            if lister and kind != 0:
                action.completer = _ignore_context(lister)
    return parsers[""]


def _add_argument(parser: CommandParser, names: list[str], kind: Any) -> Any:
    if kind == 0:
        return parser.add_argument(*names, action="store_true")
    return parser.add_argument(*names, **({"choices": kind} if isinstance(kind, list) else {"nargs": kind}))


def _ignore_context(lister: Callable[[], Iterable[str]]) -> Callable[..., Iterable[str]]:
    return lambda **_context: lister()


def _read_section(name: str, file: str = GRID_FILE) -> dict[str, Any]:
    """Return a section of a file of the project; empty if the file or section is missing."""
    import yaml  # OmegaConf takes three times as long to import

    path = Path(file)
    values = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader) if path.is_file() else {}
    return values.get(name) or {}


def list_cells() -> list[str]:
    """List the cells of the grid."""
    grid = _read_section("grid")
    axes = [map(str, grid.get(name) or ()) for name in ("methods", "backbones", "data", "seeds")]
    return list(map("-".join, itertools.product(*axes)))


def list_methods() -> list[str]:
    """List the methods of the grid; outside of a project, list all methods."""
    return _read_section("grid").get("methods") or _list_modules("methods")


def list_benchmarks() -> list[str]:
    """List the benchmarks of params.yaml and of the package."""
    return sorted({*_read_section("benchmarks"), *_list_modules("benchmarks")})


def _list_modules(folder: str) -> list[str]:
    return [path.stem for path in (PACKAGE / folder).glob("[a-z]*.py")]


def list_stages() -> Iterator[str]:
    """Yield the stages of dvc.yaml; a stage with a `foreach` gives one `stage@name` for each name."""
    for name, stage in _read_section("stages", "dvc.yaml").items():
        section, _, key = stage.get("foreach", "").strip("${}").partition(".")
        values = _read_section(section)
        items = values.get(key) or () if key else values
        yield from (f"{name}@{item}" for item in items) if section else [name]


def list_shipped_grids() -> list[str]:
    """List the names of the grids that `compclip init --grid` accepts."""
    folders = (PACKAGE / "project_files" / GRIDS, PACKAGE.parent / GRIDS)
    return [path.stem for folder in folders for path in folder.glob("*.yaml")]


def list_offers() -> list[str]:
    """List what `compclip fetch` can download."""
    return re.findall(r"^(\w+):", (PACKAGE / "fetch" / "catalogue.yaml").read_text(encoding="utf-8"), re.MULTILINE)


def _list_files(*patterns: str) -> list[str]:
    return [str(path) for pattern in patterns for path in Path().glob(pattern)]


LISTERS: dict[str, Callable[[], Iterable[str]]] = {
    "cell": list_cells,
    "--cell": list_cells,
    "method": list_methods,
    "--method": list_methods,
    "--benchmark": list_benchmarks,
    "--benchmarks": list_benchmarks,
    "data": lambda: _read_section("data"),
    "launch --data": lambda: _read_section("data"),
    "--backbone": lambda: _read_section("backbones"),
    "file": lambda: _list_files(f"{GRIDS}/*.yaml", "*.yaml"),
    "--params": lambda: _list_files(f"{GRIDS}/*.yaml", "*.yaml"),
    "init --grid": list_shipped_grids,
    "--study": lambda: [Path(path).stem for path in _list_files("experiments/studies/*.yaml")],
    "profile": lambda: _list_files("slurm/*.yaml"),
    "--on": lambda: _list_files("slurm/*.yaml"),
    "fetch names": list_offers,
    "stages": list_stages,
}

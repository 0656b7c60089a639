"""Recognise official benchmarks by their files: each says in its own module what it recognises (`RECOGNISES`)."""

from __future__ import annotations

import fnmatch
import functools
import itertools
import json
import os
import re
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.data import tables
from compclip.data.sample import ENDINGS
from compclip.evaluate.benchmark_module import load_module

FILES = 20_000  # whose names are looked at
FOLDERS = 1_000
HEAD = 1 << 16  # bytes of a file
HEADS = 100  # files that are opened for a pattern


def find_official(path: Path) -> dict[str, dict[str, Any]]:
    """Return `path` and `split` of each official benchmark of a file or folder, by module; {} where there is none."""
    paths_by_name: dict[str, list[Path]] = {}
    for file in list_files(path):
        paths_by_name.setdefault(file.name, []).append(file)
    sections = {}
    for module in plugins.list_plugins(plugins.BENCHMARKS):
        section = _find_benchmark(module, path, paths_by_name)
        if section:
            sections[module] = section
    return sections


def list_files(path: Path) -> list[Path]:
    """Return a file; or a folder and the files and folders in it, upper ones first, without pictures."""
    files = [path.absolute()]
    folders = deque(files if path.is_dir() else [])
    for _ in range(FOLDERS):
        if not folders or len(files) >= FILES:
            break
        for entry in sorted(os.scandir(folders.popleft()), key=lambda entry: entry.name):
            if not entry.name.lower().endswith(ENDINGS) and not entry.name.startswith("."):
                files.append(Path(entry.path))
                folders += files[-1:] if entry.is_dir() else []
    return files[:FILES]


def _find_benchmark(module: str, path: Path, paths_by_name: Mapping[str, list[Path]]) -> dict[str, Any]:
    """Return a benchmark's section; {} where none of its files is there."""
    hooks = load_module(module)
    by_split = isinstance(hooks.recognises, Mapping)
    patterns = dict(hooks.recognises) if isinstance(hooks.recognises, Mapping) else {p: p for p in hooks.recognises}
    names_by_folder: dict[Path, dict[str, None]] = {}  # in which a pattern begins
    for name, pattern in patterns.items():
        for file in _match(pattern, paths_by_name):
            if re.search(hooks.file_head, _read_head(file), re.DOTALL):
                names_by_folder.setdefault(file.parents[len(Path(pattern).parts) - 1], {})[name] = None
    if not names_by_folder:
        return {}
    folder = min(names_by_folder, key=lambda folder: (len(folder.parts), folder))
    names = list(names_by_folder[folder])
    is_nameless = path.is_file() and "*" in patterns[names[0]]  # others of the folder may fit as well
    section: dict[str, Any] = {"path": str(path.absolute() if is_nameless else folder)}
    if by_split and len(names) < len(patterns):
        section["split"] = ",".join(names)
    return section


def _match(pattern: str, paths_by_name: Mapping[str, list[Path]]) -> list[Path]:
    """Return the first HEADS paths that end as a pattern says."""
    name = Path(pattern).name
    names = fnmatch.filter(paths_by_name, name) if "*" in name else [name]
    paths = (path for name in names for path in paths_by_name.get(name, ()) if path.match(pattern))
    return list(itertools.islice(paths, HEADS))


@functools.lru_cache(FILES)
def _read_head(file: Path) -> str:
    """Return the first characters of a file, of Parquet and Arrow the columns' names as JSON; "" of no file."""
    if not file.is_file():
        return ""
    if tables.format_suffix(file) in tables.PARQUET + tables.ARROW:
        try:
            return json.dumps(tables.read_columns(file))
        except UserError:  # it has the ending of a table alone
            return ""
    with file.open("rb") as stream:
        return stream.read(HEAD).decode("utf-8", "replace")

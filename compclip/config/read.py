"""params.yaml onto frozen dataclasses, and another grid in its place without the loss of anybody's edits."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue

from compclip.base import yaml_text
from compclip.base.errors import UserError, unknown
from compclip.base.files import read_text, write_atomic
from compclip.base.safe_names import SafeName
from compclip.config import check, columns, tuning
from compclip.config.sections import (
    Backbone,
    BenchmarkSection,
    Data,
    Evaluate,
    Grid,
    Params,
    Report,
    Train,
    Tune,
    WiseFt,
    World,
)
from compclip.config.validation import load_section, mapping

DEFAULT = "params.yaml"
SECTIONS: dict[str, Any] = {
    "grid": Grid,
    "train": Train,
    "evaluate": Evaluate,
    "wise_ft": WiseFt,
    "report": Report,
    "scenes": World,
    "tune": Tune,
}
TABLES: dict[str, Any] = {"backbones": Backbone, "data": Data, "benchmarks": BenchmarkSection}
# What DVC takes from params.yaml as it stands, besides the tables' keys; * is every key.
LITERAL = ("grid.methods", "wise_ft.methods", "benchmarks.*.path", "benchmarks.*.images")
GRIDS = Path("experiments/grids")
# A params.yaml that is a copy of one of these holds nobody's edits.
TRACKED_GRIDS = (f"{GRIDS}/*.yaml", "studies/*/best.yaml")
NO_SECTIONS = "must be a mapping of sections such as grid and train"
BASE = "base"  # the grid that a grid is laid over, by its name
# Of its base's tables a grid takes the entries that the lists at these keys of it name.
NAMED = {
    "methods": ("grid.methods", "wise_ft.methods"),
    "methods.*.variants": ("grid.methods", "wise_ft.methods"),
    "methods.*.per_data": ("grid.data",),
    "backbones": ("grid.backbones",),
    "data": ("grid.data",),
    "benchmarks": ("evaluate.benchmarks", "wise_ft.benchmarks"),
}


def load_params(path: str | Path = DEFAULT, overrides: Sequence[str] = (), together: bool = False) -> Params:
    """Read params.yaml, apply overrides (`key=value`) and check every section; `together`: also across sections.

    Where methods are tuned, the values that were chosen beside the file are in `tuned`. Raises UserError naming key,
    value and fix.
    """
    params = check_params(read_with_overrides(path, overrides), str(path), together)
    return replace(params, tuned=tuning.read_values(params, Path(path).parent)) if params.tune.trials else params


def check_params(merged: Any, where: str, together: bool = False) -> Params:
    """Check sections that OmegaConf has read; `where` names them in errors."""
    sections = yaml_text.to_plain(merged, where)
    try:
        _check_literal(merged)
        params = _load_sections(sections)
        check.check_sections(params)
        if together:
            check.check_consistency(params)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    return params


def _load_sections(raw: dict) -> Params:
    for name in raw:
        if name not in (*SECTIONS, *TABLES, "methods"):
            raise unknown("section", str(name), (*SECTIONS, *TABLES, "methods"))
    sections: dict[str, Any] = {n: load_section(kind, raw.get(n), n) for n, kind in SECTIONS.items()}
    tables: dict[str, Any] = {name: {} for name in (*TABLES, "methods")}
    for name, table in tables.items():
        for key, value in mapping(raw.get(name), name).items():
            entry_name = check.check_name(key, name.removesuffix("s"))
            table[entry_name] = load_section(TABLES[name], value, f"{name}.{key}") if name in TABLES else value
    for name in ("evaluate", "wise_ft"):
        evaluated = columns.expand_groups(sections[name].benchmarks, tables["benchmarks"])
        sections[name] = replace(sections[name], benchmarks=evaluated)
    return Params(**sections, **tables)


def check_listed(path: str | Path, overrides: Sequence[str]) -> None:
    """Raise UserError where a grid lacks a list that DVC goes through, and that has a default here."""
    if OmegaConf.select(read_with_overrides(path, overrides), "wise_ft.methods") is None:
        raise UserError(f"{path}: wise_ft.methods: must be given, since DVC reads it; write `wise_ft: {{methods: []}}`")


def _check_literal(merged: Any) -> None:
    """Raise UserError for interpolations where DVC, which does not resolve them, reads params.yaml too."""
    for pattern in LITERAL:
        for name, value in _select_values(OmegaConf.to_container(merged), pattern.split(".")):
            if yaml_text.MARK in str(value):
                raise UserError(f"{name}={value}: DVC resolves no interpolations; write it out")


def _select_values(values: Any, keys: Sequence[str], name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values at a path of keys, each with its name; a section that refers to another one as a whole, too."""
    if not keys or isinstance(values, str):
        yield name, values
    elif isinstance(values, dict):
        for key in values if keys[0] == "*" else keys[:1]:
            yield from _select_values(values.get(key), keys[1:], f"{name}.{key}".lstrip("."))


def read_values(path: str | Path) -> dict:
    """Return a run's file as plain values. Raises UserError where one has no value."""
    return yaml_text.to_plain(yaml_text.read_yaml(path, NO_SECTIONS), str(path))


def read_with_overrides(path: str | Path, overrides: Sequence[str], text: str | None = None) -> Any:
    """Return a grid as OmegaConf has it, unresolved, laid over its bases, overrides applied.

    `text` stands in the place of the file's.
    """
    if not os.path.exists(path):
        raise UserError(
            f"{path}: no such file; run from a project's root, begin one with `compclip init`, or give --params FILE"
        )
    grid, *bases = _read_layers(Path(path), text)
    try:
        merged = OmegaConf.merge(*reversed(bases), grid)
    except yaml_text.FAULTS as error:
        raise UserError(f"{path}: {BASE}: {yaml_text.describe_error(error)}") from error
    for override in overrides:
        where = f"{path}: override {override!r}"
        if not re.match(r"[^=]+=", override):
            raise UserError(f"{where}: must be key=value, as train.lr=1e-5")
        yaml_text.check_limits(override.partition("=")[2], where)
        try:
            values = OmegaConf.from_dotlist([override])
            OmegaConf.to_container(values, throw_on_missing=True)
            merged = OmegaConf.merge(merged, values)
        except MissingMandatoryValue as error:  # merging would pass over it
            raise UserError(f"{where}: ??? is no value; give one") from error
        except yaml_text.FAULTS as error:
            raise UserError(f"{where}: {yaml_text.describe_error(error)}") from error
    return _leave_out_unnamed(merged, grid) if bases else merged


def _read_layers(path: Path, text: str | None = None) -> list[Any]:
    """Return a grid and the grids that it is laid over, the uppermost first, each without its key `base`."""
    layers: dict[Path, Any] = {}
    while path not in layers:
        layers[path] = yaml_text.parse_yaml(read_text(path) if text is None else text, str(path), NO_SECTIONS)
        text = None
        sections: Any = OmegaConf.to_container(layers[path])
        name = sections.get(BASE)
        if name is None:
            return list(layers.values())
        if path.name == DEFAULT:
            raise UserError(
                f"{path}: {BASE}={name}: DVC reads {path.name} alone; move it to {GRIDS}, then `config use`"
            )
        del layers[path][BASE]
        path = _find_base(path, SafeName(name, f"{path}: {BASE}"))
    raise UserError(f"{path}: {BASE}: leads in a circle: {', '.join(map(str, layers))}; remove it from one of them")


def _find_base(path: Path, name: SafeName) -> Path:
    """Return the file of a base: beside the grid that names it, or in experiments/grids; never through a link."""
    for folder in (path.parent, GRIDS):
        base = folder / f"{name}.yaml"
        if base.is_file() and not base.is_symlink():
            return base
    raise UserError(f"{path}: {BASE}={name}: no file {name}.yaml beside it or in {GRIDS}; name one that is there")


def _leave_out_unnamed(merged: Any, grid: Any) -> Any:
    """Return a merged grid without the entries that its base has for other grids."""
    sections: Any = OmegaConf.to_container(merged)
    own_sections: Any = OmegaConf.to_container(grid)
    for path, keys in NAMED.items():
        names = _list_names(sections, keys)
        if names & columns.GROUPS.keys():  # whose members are all that the table has
            continue
        for table, entries in _select_values(sections, path.split(".")):
            own_entries = dict(_select_values(own_sections, table.split("."))).get(table) or {}
            for name in [*entries] if isinstance(entries, dict) else ():
                if str(name) not in names and name not in own_entries:
                    del entries[name]
    return OmegaConf.create(sections)


def _list_names(sections: dict, keys: Sequence[str]) -> set[str]:
    """List what the lists at some keys name; of `method.variant` both as well."""
    names: set[str] = set()
    for key in keys:
        for _, values in _select_values(sections, key.split(".")):
            for name in map(str, values if isinstance(values, list) else ()):
                names |= {name, *name.split(".")}
    return names


def write_out(path: Path) -> str:
    """Return a grid as one text: its file, or below the comment that heads it all values, those of its bases too."""
    text = read_text(path)
    if BASE not in text or len(_read_layers(path)) == 1:
        return text
    whole = yaml_text.dump_yaml(yaml_text.to_unresolved(read_with_overrides(path, ())))
    return f"{read_head(text)}# Written out of {path.name} and its base; the comments on its values are there.\n{whole}"


def read_head(text: str) -> str:
    """Return the comment that a file begins with."""
    lines = text.splitlines(keepends=True)
    return "".join(itertools.takewhile(lambda line: line.startswith("#"), lines))


def use_grid(source: str | Path, target: str | Path = DEFAULT, force: bool = False) -> None:
    """Make `source` the current parameters after checking it; uncommitted edits of `target` are never overwritten."""
    load_params(source)
    text = write_out(Path(source))
    if Path(target).exists() and not force and read_text(target) != text and _has_edits(Path(target)):
        raise UserError(f"{target}: has uncommitted edits; commit it or save it in {GRIDS}, or give --force")
    write_atomic(target, text)


def _has_edits(path: Path) -> bool:
    """Whether something would be lost: not as last committed (or unknown to git), and no copy of a kept file."""
    text = read_text(path)
    folder = path.resolve().parent
    for copy in itertools.chain(*map(folder.glob, TRACKED_GRIDS)):
        # a grid is written out where its head says that it may be the one
        if text.startswith(read_head(read_text(copy))) and text == write_out(copy):
            return False
    try:
        command = ["git", "status", "--porcelain", "--ignored", path.name]
        status = subprocess.run(command, cwd=folder, capture_output=True)
    except OSError:  # no git on this machine
        return True
    return status.returncode != 0 or bool(status.stdout.strip())

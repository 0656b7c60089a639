"""Read params.yaml into frozen dataclasses, and replace it by another grid without losing edits."""

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
# Values that DVC reads from params.yaml without resolving references, besides the keys of tables; * means every key.
LITERAL = ("grid.methods", "wise_ft.methods", "benchmarks.*.path", "benchmarks.*.images")
GRIDS = Path("experiments/grids")
# A params.yaml that is a copy of one of these files can be replaced: no edit is lost.
TRACKED_GRIDS = (f"{GRIDS}/*.yaml", "studies/*/best.yaml")
NO_SECTIONS = "must be a mapping of sections such as grid and train"
BASE = "base"  # the key with the name of the grid that a grid overrides
# Of each table of its base, a grid keeps the entries that these lists of the grid name.
NAMED = {
    "methods": ("grid.methods", "wise_ft.methods"),
    "methods.*.variants": ("grid.methods", "wise_ft.methods"),
    "methods.*.per_data": ("grid.data",),
    "backbones": ("grid.backbones",),
    "data": ("grid.data",),
    "benchmarks": ("evaluate.benchmarks", "wise_ft.benchmarks"),
}


def load_params(path: str | Path = DEFAULT, overrides: Sequence[str] = (), together: bool = False) -> Params:
    """Read params.yaml, apply overrides (`key=value`) and check each section; `together`: also across sections.

    If methods are tuned, `tuned` holds the chosen values, which are stored in the folder of the file. Raises UserError
    naming key, value and fix.
    """
    params = check_params(read_with_overrides(path, overrides), str(path), together)
    return replace(params, tuned=tuning.read_values(params, Path(path).parent)) if params.tune.trials else params


def check_params(merged: Any, where: str, together: bool = False) -> Params:
    """Check sections that OmegaConf has read, and return them; `where` names the file in errors."""
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
    """Raise UserError if a grid lacks a list that DVC iterates over, although compclip has a default for it."""
    if OmegaConf.select(read_with_overrides(path, overrides), "wise_ft.methods") is None:
        raise UserError(f"{path}: wise_ft.methods: must be given, as DVC reads it; write `wise_ft: {{methods: []}}`")


def _check_literal(merged: Any) -> None:
    """Raise UserError for references (`${...}`) in values that DVC reads too, since DVC does not resolve them."""
    for pattern in LITERAL:
        for name, value in _select_values(OmegaConf.to_container(merged), pattern.split(".")):
            if yaml_text.MARK in str(value):
                raise UserError(f"{name}={value}: DVC resolves no interpolations; write it out")


def _select_values(values: Any, keys: Sequence[str], name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values at a path of keys, each with its name; also a section that is as a whole a reference."""
    if not keys or isinstance(values, str):
        yield name, values
    elif isinstance(values, dict):
        for key in values if keys[0] == "*" else keys[:1]:
            yield from _select_values(values.get(key), keys[1:], f"{name}.{key}".lstrip("."))


def read_values(path: str | Path) -> dict:
    """Return a run's config.yaml as plain values. Raises UserError if a value is missing (???)."""
    return yaml_text.to_plain(yaml_text.read_yaml(path, NO_SECTIONS), str(path))


def read_with_overrides(path: str | Path, overrides: Sequence[str], text: str | None = None) -> Any:
    """Return a grid as an OmegaConf object: merged over its bases, with overrides, references not resolved.

    `text` is used instead of the file's text if given.
    """
    if not os.path.exists(path):
        raise UserError(
            f"{path}: no such file; run from a project's root, create one with `compclip init`, or give --params FILE"
        )
    grid, *bases = _read_layers(Path(path), text)
    try:
        merged = OmegaConf.merge(*reversed(bases), grid)
    except yaml_text.FAULTS as error:
        raise UserError(f"{path}: {BASE}: {yaml_text.describe_error(error)}") from error
    for override in overrides:
        where = f"{path}: override {override!r}"
        if not re.match(r"[^=]+=", override):
            raise UserError(f"{where}: must be key=value, such as train.lr=1e-5")
        yaml_text.check_limits(override.partition("=")[2], where)
        try:
            values = OmegaConf.from_dotlist([override])
            OmegaConf.to_container(values, throw_on_missing=True)
            merged = OmegaConf.merge(merged, values)
        except MissingMandatoryValue as error:  # merging would ignore it
            raise UserError(f"{where}: ??? is no value; give one") from error
        except yaml_text.FAULTS as error:
            raise UserError(f"{where}: {yaml_text.describe_error(error)}") from error
    return _leave_out_unnamed(merged, grid) if bases else merged


def _read_layers(path: Path, text: str | None = None) -> list[Any]:
    """Return a grid and its bases, from the grid to the last base, each without its key `base`."""
    layers: dict[Path, Any] = {}
    while path not in layers:
        layers[path] = yaml_text.parse_yaml(read_text(path) if text is None else text, str(path), NO_SECTIONS)
        text = None
        sections: Any = OmegaConf.to_container(layers[path])
        name = sections.get(BASE)
        if name is None:
            return list(layers.values())
        if path.name == DEFAULT:
            raise UserError(f"{path}: {BASE}={name}: DVC reads only {path.name}; move it to {GRIDS}, then `config use`")
        del layers[path][BASE]
        path = _find_base(path, SafeName(name, f"{path}: {BASE}"))
    raise UserError(f"{path}: {BASE}: leads in a circle: {', '.join(map(str, layers))}; remove it from one of them")


def _find_base(path: Path, name: SafeName) -> Path:
    """Return the file of a base: in the folder of the grid that names it, or in experiments/grids; never a link."""
    for folder in (path.parent, GRIDS):
        base = folder / f"{name}.yaml"
        if base.is_file() and not base.is_symlink():
            return base
    raise UserError(f"{path}: {BASE}={name}: no file {name}.yaml beside it or in {GRIDS}; name one that is there")


def _leave_out_unnamed(merged: Any, grid: Any) -> Any:
    """Return a merged grid without the entries of its base that the grid does not use."""
    sections: Any = OmegaConf.to_container(merged)
    own_sections: Any = OmegaConf.to_container(grid)
    for path, keys in NAMED.items():
        names = _list_names(sections, keys)
        if names & columns.GROUPS.keys():  # a group may use every entry of the table
            continue
        for table, entries in _select_values(sections, path.split(".")):
            own_entries = dict(_select_values(own_sections, table.split("."))).get(table) or {}
            for name in [*entries] if isinstance(entries, dict) else ():
                if str(name) not in names and name not in own_entries:
                    del entries[name]
    return OmegaConf.create(sections)


def _list_names(sections: dict, keys: Sequence[str]) -> set[str]:
    """List the names in the lists at some keys; for `method.variant`, also both words."""
    names: set[str] = set()
    for key in keys:
        for _, values in _select_values(sections, key.split(".")):
            for name in map(str, values if isinstance(values, list) else ()):
                names |= {name, *name.split(".")}
    return names


def write_out(path: Path) -> str:
    """Return a grid as a text without bases: its file, or its first comment and all values, including its bases'."""
    text = read_text(path)
    if BASE not in text or len(_read_layers(path)) == 1:
        return text
    whole = yaml_text.dump_yaml(yaml_text.to_unresolved(read_with_overrides(path, ())))
    return f"{read_head(text)}# Written out of {path.name} and its base; the comments on its values are there.\n{whole}"


def read_head(text: str) -> str:
    """Return the comment at the beginning of a file."""
    lines = text.splitlines(keepends=True)
    return "".join(itertools.takewhile(lambda line: line.startswith("#"), lines))


def use_grid(source: str | Path, target: str | Path = DEFAULT, force: bool = False) -> None:
    """Check `source` and make it the current parameters; overwrite uncommitted edits of `target` only with `force`."""
    load_params(source)
    text = write_out(Path(source))
    if Path(target).exists() and not force and read_text(target) != text and _has_edits(Path(target)):
        raise UserError(f"{target}: has uncommitted edits; commit it or save it in {GRIDS}, or give --force")
    write_atomic(target, text)


def _has_edits(path: Path) -> bool:
    """Return whether replacing a file would lose edits: it is neither committed nor a copy of a tracked grid."""
    text = read_text(path)
    folder = path.resolve().parent
    for copy in itertools.chain(*map(folder.glob, TRACKED_GRIDS)):
        # writing a grid out is slow, so first compare the beginning
        if text.startswith(read_head(read_text(copy))) and text == write_out(copy):
            return False
    try:
        command = ["git", "status", "--porcelain", "--ignored", path.name]
        status = subprocess.run(command, cwd=folder, capture_output=True)
    except OSError:  # no git on this machine
        return True
    return status.returncode != 0 or bool(status.stdout.strip())

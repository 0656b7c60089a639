"""params.yaml onto frozen dataclasses, and another grid in its place without the loss of anybody's edits."""

from __future__ import annotations

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
from compclip.base.files import read_bytes, write_atomic
from compclip.config import benchmark_groups, check, tuning
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
TRACKED_GRIDS = (
    f"{GRIDS}/*.yaml",
    "studies/*/best.yaml",
)  # a params.yaml that is a copy of one of these holds nobody's edits
NO_SECTIONS = "must be a mapping of sections such as grid and train"


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
    tables: dict[str, Any] = {
        name: {
            check.check_name(key, name.removesuffix("s")): load_section(kind, value, f"{name}.{key}")
            for key, value in mapping(raw.get(name), name).items()
        }
        for name, kind in TABLES.items()
    }
    methods: dict[str, Any] = {
        check.check_name(key, "method"): value for key, value in mapping(raw.get("methods"), "methods").items()
    }
    for name in ("evaluate", "wise_ft"):
        evaluated = benchmark_groups.expand_groups(sections[name].benchmarks, tables["benchmarks"])
        sections[name] = replace(sections[name], benchmarks=evaluated)
    return Params(**sections, **tables, methods=methods)


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


def read_values(path: str | Path, overrides: Sequence[str]) -> dict:
    """Return the file's sections as plain values, overrides applied. Raises UserError where one has no value."""
    return yaml_text.to_plain(read_with_overrides(path, overrides), str(path))


def read_with_overrides(path: str | Path, overrides: Sequence[str]) -> Any:
    """Return the file as OmegaConf has it, unresolved, overrides applied: for writing another params.yaml."""
    if not os.path.exists(path):
        raise UserError(
            f"{path}: no such file; run from a project's root, begin one with `compclip init`, or give --params FILE"
        )
    merged = yaml_text.read_yaml(path, NO_SECTIONS)
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
    return merged


def use_grid(source: str | Path, target: str | Path = DEFAULT, force: bool = False) -> None:
    """Make `source` the current parameters after checking it; uncommitted edits of `target` are never overwritten."""
    if not os.path.exists(source):
        raise UserError(f"{source}: no such file; the grids that there are: {GRIDS}/*.yaml (`compclip list grids`)")
    load_params(source)
    raw = read_bytes(source)
    if Path(target).exists() and not force and Path(target).read_bytes() != raw and _has_edits(Path(target)):
        raise UserError(f"{target}: has uncommitted edits; commit it or save it in {GRIDS}, or give --force")
    write_atomic(target, raw)


def _has_edits(path: Path) -> bool:
    """Whether something would be lost: not as last committed (or unknown to git), and no copy of a kept file."""
    raw, folder = path.read_bytes(), path.resolve().parent
    if any(raw == copy.read_bytes() for pattern in TRACKED_GRIDS for copy in folder.glob(pattern)):
        return False
    try:
        status = subprocess.run(
            ["git", "status", "--porcelain", "--ignored", path.name], cwd=folder, capture_output=True
        )
    except OSError:  # no git on this machine
        return True
    return status.returncode != 0 or bool(status.stdout.strip())

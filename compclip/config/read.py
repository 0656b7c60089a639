"""params.yaml onto frozen dataclasses, and a resolved run to config.yaml and back."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue

from compclip.base import references, yaml_text
from compclip.base.errors import UserError, unknown
from compclip.config import check
from compclip.config.how import Benchmark
from compclip.config.sections import (
    Backbone,
    Data,
    Evaluate,
    Grid,
    Params,
    Report,
    Train,
    WiseFt,
    World,
)
from compclip.config.structured import mapping, structured

DEFAULT = "params.yaml"
SECTIONS: dict[str, Any] = {
    "grid": Grid,
    "train": Train,
    "evaluate": Evaluate,
    "wise_ft": WiseFt,
    "report": Report,
    "scenes": World,
}
TABLES: dict[str, Any] = {"backbones": Backbone, "data": Data, "benchmarks": Benchmark}
LITERAL = (("grid", "methods"), ("wise_ft", "methods"))  # besides the tables' keys what dvc.yaml hands to a shell
NO_SECTIONS = "must be a mapping of sections such as grid and train"


def load(path: str | Path = DEFAULT, overrides: Sequence[str] = (), together: bool = False) -> Params:
    """Read, override (`key=value`), and check every section, and on demand all `together`.

    Raises UserError naming key, value and fix.
    """
    return checked(overridden(path, overrides), str(path), together)


def checked(merged: Any, where: str, together: bool = False) -> Params:
    """The same of sections that OmegaConf has read; `where` names them in errors."""
    sections = yaml_text.plain(merged, where)
    try:
        _check_literal(merged)
        params = _params(sections)
        if together:
            check.together(params)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    return params


def _params(raw: dict) -> Params:
    for name in raw:
        if name not in (*SECTIONS, *TABLES, "methods"):
            raise unknown("section", str(name), (*SECTIONS, *TABLES, "methods"))
    sections: dict[str, Any] = {n: structured(kind, mapping(raw.get(n), n), n) for n, kind in SECTIONS.items()}
    tables: dict[str, Any] = {
        name: {
            check.name(k, name.removesuffix("s")): structured(kind, mapping(v, f"{name}.{k}"), f"{name}.{k}")
            for k, v in mapping(raw.get(name), name).items()
        }
        for name, kind in TABLES.items()
    }
    methods: dict[str, Any] = {check.name(k, "method"): v for k, v in mapping(raw.get("methods"), "methods").items()}
    params = Params(**sections, **tables, methods=methods)
    check.alone(params)
    return params


def _check_literal(merged: Any) -> None:
    """DVC reads params.yaml too, and writes interpolations into its commands as they stand."""
    sections: Any = OmegaConf.to_container(merged)
    for section, key in LITERAL:
        given = sections.get(section)
        if isinstance(given, dict) and references.MARK in str(given.get(key)):
            raise UserError(f"{section}.{key}={given[key]}: DVC resolves no interpolations; write the names out")


def raw(path: str | Path, overrides: Sequence[str]) -> dict:
    """The file's sections as plain values, overrides applied. Raises UserError for what has none."""
    return yaml_text.plain(overridden(path, overrides), str(path))


def overridden(path: str | Path, overrides: Sequence[str]) -> Any:
    """The same as OmegaConf has it, interpolations as they stand: what another params.yaml is written from."""
    if not os.path.exists(path):
        raise UserError(f"{path}: no such file; run from the project's root or give --params FILE")
    merged = yaml_text.read(path, NO_SECTIONS)
    for override in overrides:
        merged = _overridden(path, merged, override)
    return merged


def _overridden(path: str | Path, merged: Any, override: str) -> Any:
    if not re.match(r"[^=]+=", override):
        raise UserError(f"{path}: override {override!r}: must be key=value, as train.lr=1e-5")
    yaml_text.check(override, f"{path}: override")
    try:
        given = OmegaConf.from_dotlist([override])
        OmegaConf.to_container(given, throw_on_missing=True)
        return OmegaConf.merge(merged, given)
    except MissingMandatoryValue as error:  # merging would pass over it
        raise UserError(f"{path}: override {override!r}: ??? is no value; give one") from error
    except yaml_text.FAULTS as error:
        raise UserError(f"{path}: override {override!r}: {yaml_text.told(error)}") from error

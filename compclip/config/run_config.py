"""A resolved run as its config.yaml has it, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from compclip.config.cell import parse_cell
from compclip.config.sections import Backbone, Data, Run, Train
from compclip.config.validation import load_section
from compclip.interface.method import load_method


def dump_yaml(values: Mapping[str, Any]) -> str:
    """Return plain values as YAML, keys in the order given."""
    return OmegaConf.to_yaml(OmegaConf.create(dict(values)))


def to_yaml(run: Run) -> str:
    """Return a run fully resolved, as runs/<method>/<cell>/config.yaml has it."""
    return dump_yaml(run.plain)


def from_plain(raw: Mapping[str, Any], where: str) -> Run:
    """Return the run that plain values describe. Raises UserError naming `where` and the key."""
    cell = parse_cell(raw.get("cell"), f"{where}: cell")
    return Run(
        cell,
        load_section(load_method(cell.method).Config, raw.get("method"), f"{where}: method"),
        load_section(Train, raw.get("train"), f"{where}: train"),
        load_section(Backbone, raw.get("backbone"), f"{where}: backbone"),
        load_section(Data, raw.get("data"), f"{where}: data"),
    )


def from_yaml(path: str | Path) -> Run:
    """Return the run that a config.yaml describes."""
    from compclip.config.read import read_values

    return from_plain(read_values(path, ()), str(path))

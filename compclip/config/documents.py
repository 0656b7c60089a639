"""A resolved run as config.yaml has it, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compclip.base import plugins
from compclip.config import structured as sections
from compclip.config.sections import Backbone, Data, Run, Train
from compclip.config.structured import mapping, structured
from compclip.config.written import plain_yaml


def to_yaml(run: Run) -> str:
    """A run fully resolved, as runs/<method>/<cell>/config.yaml has it."""
    return plain_yaml(run.plain)


def from_plain(raw: Mapping[str, Any], where: str) -> Run:
    """The run that plain values describe. Raises UserError naming `where` and the key."""
    raw = {str(key): mapping(value, f"{where}: {key}") for key, value in raw.items()}
    cell = sections.cell(raw.get("cell"), f"{where}: cell")
    method = plugins.find(plugins.METHODS, cell.method.partition(".")[0]).Config
    kinds = {"method": method, "train": Train, "backbone": Backbone, "data": Data}
    return Run(cell, **{name: structured(kind, raw.get(name, {}), f"{where}: {name}") for name, kind in kinds.items()})


def from_yaml(path: str | Path) -> Run:
    """The run that a config.yaml describes."""
    from compclip.config.read import raw

    return from_plain(raw(path, ()), str(path))

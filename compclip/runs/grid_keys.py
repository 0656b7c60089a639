"""The cells of a params file with their run keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError, one_line
from compclip.config import grid, read
from compclip.config.grid import Cell
from compclip.interface.method import load_method
from compclip.runs import run_store
from compclip.runs.run_key import hash_parameters


@dataclass(frozen=True)
class KeyedCell:
    """A cell, its run key and its schedule; without data or backbone the key is empty and `error` says why.

    `parameters` is the hash of what is known of the key all the same, see `run_key.hash_parameters`.
    """

    cell: Cell
    key: str
    train: Mapping[str, Any]
    parameters: str
    error: str = ""


def list_cells(params_path: str | Path = read.DEFAULT, root: Path = Path(".")) -> list[KeyedCell]:
    """Return the cells of a params file. Raises UserError for a file with a mistake."""
    cells = []
    for run in grid.resolve_all(read.load_params(params_path)):
        parameters = hash_parameters(run.plain, trains_anything(run.method_name))
        try:
            key, error = run_store.locate_run(run, root).key, ""
        except UserError as fault:
            key, error = "", one_line(str(fault))
        cells.append(KeyedCell(run.cell, key, asdict(run.train), parameters, error))
    return cells


def trains_anything(method: str) -> bool:
    """Return whether a method trains anything."""
    return load_method(method).TRAINS

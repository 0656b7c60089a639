"""Runs that were trained with other parameters than the grid gives them now."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from omegaconf import OmegaConf

from compclip.base.errors import UserError
from compclip.config import documents, grid, sections
from compclip.config.sections import PRETRAINED, Cell
from compclip.report.collect import Missing
from compclip.report.details import SECTIONS, flatten
from compclip.runs.key import RESOURCES
from compclip.runs.results import FinishedRun


def check(params: sections.Params, runs: Iterable[FinishedRun], partial: bool) -> list[Missing]:
    """A line for each such run; its mean with other seeds would be of two methods.

    Raises UserError naming the first unless `partial`.
    """
    wanted = functools.cache(functools.partial(_wanted, params))
    found = [Missing(run.cell.name, f"trained with {told}") for run in runs if (told := _other(run, wanted))]
    if found and not partial:
        more = f" ({len(found)} such runs)" if len(found) > 1 else ""
        raise UserError(f"{found[0].cell}: {found[0].reason}{more}; run `dvc repro`, or give --partial")
    return found


def _other(run: FinishedRun, grid_has: Callable[[Cell], dict[str, Any]]) -> str:
    """The first parameter that differs; empty where none does."""
    if run.cell.method == PRETRAINED or not run.config:
        return ""
    wanted, used = grid_has(replace(run.cell, seed=0)), _flat(run.config)
    for key in sorted(wanted.keys() | used.keys()):
        if wanted.get(key) != used.get(key):
            return f"{key}={used.get(key)} where the grid has {wanted.get(key)}"
    return ""


def _wanted(params: sections.Params, cell: Cell) -> dict[str, Any]:
    """What the grid asks of a cell now, as its config.yaml would have it; the same for all seeds."""
    run = grid.resolve(params, replace(cell, seed=params.grid.seeds[0]))
    return _flat(OmegaConf.to_container(OmegaConf.create(documents.to_yaml(run))))


def _flat(raw: dict[str, Any]) -> dict[str, Any]:
    values = flatten({section: raw.get(section, {}) for section in SECTIONS})
    return {key: value for key, value in values.items() if key.removeprefix("train.") not in RESOURCES}

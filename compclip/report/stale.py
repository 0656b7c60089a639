"""Runs that were trained with other parameters than the grid gives them now."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.config import grid, sections
from compclip.config.cell import PRETRAINED
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


def _other(run: FinishedRun, grid_has: Callable[[str, str], dict[str, Any]]) -> str:
    """The first parameter that differs; empty where none does."""
    if run.cell.method == PRETRAINED or not run.config:
        return ""
    wanted, used = grid_has(run.cell.method, run.cell.data), _flat(run.config)
    if not getattr(plugins.find(plugins.METHODS, run.cell.method.partition(".")[0]), "TRAINS", True):
        wanted, used = ({k: v for k, v in values.items() if not k.startswith("train.")} for values in (wanted, used))
    for key in sorted(wanted.keys() | used.keys()):
        if wanted.get(key) != used.get(key):
            return f"{key}={used.get(key)} where the grid has {wanted.get(key)}"
    return ""


def _wanted(params: sections.Params, method: str, data: str) -> dict[str, Any]:
    """What the grid asks of a method on a data set now, as config.yaml would have it."""
    config, train = grid.method_config(params, method, data)
    return _flat({"method": asdict(config), "train": asdict(train)})


def _flat(raw: dict[str, Any]) -> dict[str, Any]:
    values = flatten({section: raw.get(section, {}) for section in SECTIONS})
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    return {key: value for key, value in values.items() if key.removeprefix("train.") not in RESOURCES}

"""Runs that were trained with other parameters than the grid gives them now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omegaconf import OmegaConf

from compclip.base.errors import UserError
from compclip.config import documents, grid, sections
from compclip.config.sections import PRETRAINED
from compclip.report.collect import Missing
from compclip.report.details import SECTIONS, flatten
from compclip.runs.key import RESOURCES
from compclip.runs.results import FinishedRun


def check(params: sections.Params, runs: Iterable[FinishedRun], partial: bool) -> list[Missing]:
    """A line for each such run; its mean with other seeds would be of two methods.

    Raises UserError naming the first unless `partial`.
    """
    found = [Missing(run.cell.name, f"trained with {told}") for run in runs if (told := _other(params, run))]
    if found and not partial:
        more = f" ({len(found)} such runs)" if len(found) > 1 else ""
        raise UserError(f"{found[0].cell}: {found[0].reason}{more}; run `dvc repro`, or give --partial")
    return found


def _other(params: sections.Params, run: FinishedRun) -> str:
    """The first parameter that differs; empty where none does."""
    if run.cell.method == PRETRAINED or not run.config:
        return ""
    wanted = _flat(OmegaConf.to_container(OmegaConf.create(documents.to_yaml(grid.resolve(params, run.cell)))))
    used = _flat(run.config)
    for key in sorted(wanted.keys() | used.keys()):
        if wanted.get(key) != used.get(key):
            return f"{key}={used.get(key)} where the grid has {wanted.get(key)}"
    return ""


def _flat(raw: dict[str, Any]) -> dict[str, Any]:
    values = flatten({section: raw.get(section, {}) for section in SECTIONS})
    return {key: value for key, value in values.items() if key.removeprefix("train.") not in RESOURCES}

"""The stage `methods`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from compclip.base import plugins
from compclip.base.files import fingerprint, write_json
from compclip.config.grid import PER_DATA, method_config, sets
from compclip.config.sections import Params


def write_methods(params: Params, folder: Path) -> None:
    """One JSON file for each method of the grid: its variant applied, its training settings, its module's hash.

    Cells depend on theirs alone, so that an edit of one method or variant leaves the others' cells as they are.
    """
    for name in params.grid.methods:
        base = name.partition(".")[0]
        apart = {data: _resolved(params, name, data) for data in sets(params, base)}
        code = fingerprint(Path(plugins.find(plugins.METHODS, base).__file__))
        write_json(
            folder / f"{name}.json", _resolved(params, name) | {"code": code} | ({PER_DATA: apart} if apart else {})
        )


def _resolved(params: Params, name: str, data: str = "") -> dict[str, dict]:
    method, train = method_config(params, name, data)
    return {"config": asdict(method), "train": asdict(train)}

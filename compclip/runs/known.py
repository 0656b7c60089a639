"""The cells of a params file with their run keys, remembered in .work/cells/: who looks again, pays for nothing.

Working keys out imports every method and reads data and code. They are taken as they were as long as nothing changed
that they depend on: the file, our code and other packages' methods, data and backbones.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compclip.base import code, plugins, stamp
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_bytes, read_mapping, write_json
from compclip.config import grid, read
from compclip.config.cell import Cell
from compclip.config.sections import Params, Run
from compclip.runs import key, store
from compclip.runs.folder import Inputs

FOLDER = Path(".work/cells")
PACKAGE = stamp.PACKAGE


@dataclass(frozen=True)
class Known:
    """A cell, its run key and its schedule; instead of the key why there is none: data or backbone are not here.

    `request`: what is known of the key all the same, see key.request.
    """

    cell: Cell
    key: str
    train: Mapping[str, Any]
    request: str
    error: str = ""


def cells(params_path: str | Path = read.DEFAULT, root: Path = Path(".")) -> list[Known]:
    """The cells of a params file. Raises UserError where it cannot be meant."""
    text = _bytes(params_path)
    place = root / FOLDER / f"{hashlib.sha256(str(params_path).encode()).hexdigest()[:16]}.json"
    found = _remembered(place, text, root)
    if found is None:
        params = read.load(params_path)
        found = [_known(run, root) for run in grid.resolved(params)]
        if stamp.REFERENCE not in text:
            _remember(place, text, _watched(params), found, root)
    return found


def _bytes(path: str | Path) -> bytes:
    """The file's contents; none where `read.load` is to say what is wrong with it."""
    with contextlib.suppress(UserError):
        return read_bytes(path)
    return stamp.REFERENCE


def _known(run: Run, root: Path) -> Known:
    train = asdict(run.train)
    request = key.request(run.plain, trains(run.method_name))
    try:
        return Known(run.cell, store.of(run, root).key, train, request)
    except UserError as error:
        return Known(run.cell, "", train, request, one_line(str(error)))


def trains(method: str) -> bool:
    """Whether a method trains anything."""
    return getattr(plugins.find(plugins.METHODS, method.partition(".")[0]), "TRAINS", True)


def _watched(params: Params) -> list[str]:
    """Data, backbones and the code of other packages that the keys of a grid depend on."""
    inputs = (Inputs(Path(), cell) for cell in grid.cells(params))
    paths = {str(path) for given in inputs for path in (given.manifest, given.backbone, given.near)}
    methods = {plugins.locate(plugins.METHODS, name.partition(".")[0]) for name in params.grid.methods}
    files = code.closure(key.TRAINER, *sorted(methods)).values()
    return sorted(paths | {str(file) for file in files if not file.is_relative_to(PACKAGE)})


def _remembered(place: Path, text: bytes, root: Path) -> list[Known] | None:
    with contextlib.suppress(UserError, KeyError, TypeError, AttributeError):
        kept = read_mapping(place)
        if kept["stamp"] == _stamp(text, kept["watched"], root):
            return [Known(Cell(**one.pop("cell")), **one) for one in kept["cells"]]
    return None


def _remember(place: Path, text: bytes, watched: list[str], found: list[Known], root: Path) -> None:
    """Nothing where it cannot be written: whoever only reads a project may look as well."""
    with contextlib.suppress(UserError):
        stamp = _stamp(text, watched, root)
        write_json(
            place,
            {"stamp": stamp, "watched": watched, "cells": [asdict(one) | {"cell": one.cell.plain} for one in found]},
        )


def _stamp(text: bytes, watched: Iterable[str], root: Path) -> str:
    """Of everything that keys depend on."""
    return stamp.of(text, [PACKAGE, *(root / path for path in watched)])

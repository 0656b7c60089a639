"""The plan: what each item of each stage is asked to do, and with which code: plan/<stage>/<item>.json.

Every other stage of dvc.yaml depends on its own plan file and on data, so that an edit makes stale what it can change
and nothing else. No list of parameters or modules is kept by hand.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compclip.base import code_hash, links, plugins
from compclip.base.errors import UserError
from compclip.base.files import update_json
from compclip.config import columns, training_code, wanted
from compclip.config.cell import Cell
from compclip.config.grid import line_cells, resolve_all
from compclip.config.sections import Data, Params, Run
from compclip.interface.method import load_method

FOLDER = Path("plan")
# The entry of each stage's code; what a plug-in brings is added by its name.
ENTRIES = {
    "scenes": "compclip.scenes.generate",
    "recaption": "compclip.prepare.recaption_shards",
    "rewrite": "compclip.prepare.rewrite_shards",
    "annotate": "compclip.prepare.annotate_shards",
    "backbone": "compclip.model.backbone",
    "benchmark": "compclip.evaluate.census",
    "neighbours": "compclip.train.nearest",
    "train": training_code.ENTRY,
    "evaluate": "compclip.evaluate.score",
    "wise_ft": "compclip.evaluate.weight_line",
    "report": "compclip.report.__main__",
    "track": "compclip.track.sync",
}


def write(params: Params, folder: Path) -> None:
    """Replace the folder's files by the plan of `params`; a file whose item is gone goes."""
    made = {f"{stage}/{item}.json": document for stage, item, document in documents(params)}
    for path in sorted(folder.rglob("*.json")):
        if str(path.relative_to(folder)) not in made:
            links.remove(path)
    for name, document in made.items():
        update_json(folder / name, document)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Take apart what a file of the plan says. Raises UserError where it says something else."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path}: damaged ({type(error).__name__}); run `dvc repro plan` again") from error


def documents(params: Params) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(stage, item, document) of every file."""
    yield "scenes", "scenes", {"params": asdict(params.scenes), "code": code_of("scenes")}
    yield from _of_data(params)
    for name, backbone in params.backbones.items():
        asked = {"params": asdict(backbone), "seed": params.scenes.seed}
        yield "backbone", name, asked | {"code": code_of("backbone")}
    for name, benchmark in params.benchmarks.items():
        scored_by = code_of("benchmark", _benchmarks(params, [name]))
        checked = {"columns": columns.of(params, name), "scorers": params.evaluate.scorers}
        yield "benchmark", name, {"params": asdict(benchmark), **checked, "code": scored_by}
    every = list(resolve_all(params))
    yield "neighbours", "neighbours", neighbours(every)
    for method, runs in itertools.groupby(every, key=lambda run: run.cell.method):
        own = list(runs)
        yield "train", method, train(method, own)
        yield "evaluate", method, evaluate(params, [run.cell for run in own])
    for method in params.wise_ft.methods:
        yield "wise_ft", method, wise_ft(params, method)
    yield "report", "report", _shown(params) | {"code": code_of("report", _methods(params))}
    yield "track", "track", _shown(params) | {"code": code_of("track")}


def _of_data(params: Params) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name, data in params.data.items():
        section = asdict(data)
        writer = section.pop("rewriter") or section["rewrites"]
        masked = section.pop("masked")
        section.pop("rewrites")
        asked = {
            "rewritten": bool(writer or masked),
            "exclude": section.pop("exclude"),
            "texts": section.pop("texts"),
            "relatives": section.pop("relatives"),
        }
        yield "recaption", name, {"params": section, "code": data_code("recaption", data)}
        yield "rewrite", name, {"params": writer, "masked": masked, "code": data_code("rewrite", data)}
        yield "annotate", name, {"params": asked, "code": data_code("annotate", data)}


def data_code(stage: str, data: Data) -> str:
    """The fingerprint of the code that makes the shards of a data set."""
    return code_of(stage, _reads(data) if stage == "recaption" else ())


def _reads(data: Data) -> list[str]:
    """The modules that read a data set."""
    return [plugins.locate(plugins.SOURCES, data.source), plugins.locate(plugins.CAPTIONERS, data.captioner)]


def train(method: str, runs: Iterable[Run]) -> dict[str, Any]:
    """The runs of a method, resolved as config.yaml has them, and as its text: who publishes a run needs no YAML."""
    base = method.partition(".")[0]
    declared, own = load_method(base), list(runs)
    found = {_short(run.cell): run.plain for run in own}
    near = [_short(run.cell) for run in own if wanted.neighbours(base, run.method)]
    asked = {"method": method, "trains": declared.TRAINS, "near": near, "cells": found}
    reads = {_short(run.cell): declared.reads(run.method) for run in own}
    if any(reads.values()):
        asked["reads"] = reads
    return asked | {"code": training_code.hash_training_code(base)}


def neighbours(runs: Iterable[Run]) -> dict[str, Any]:
    """The pairs of data and backbone that some run wants the neighbours of; where none does, there is no code."""
    cells = (run.cell for run in runs if wanted.neighbours(run.method_name, run.method))
    pairs = sorted({(str(cell.data), str(cell.backbone)) for cell in cells})
    return {"pairs": pairs, "code": code_of("neighbours") if pairs else ""}


def evaluate(params: Params, own: Iterable[Cell]) -> dict[str, Any]:
    """What the cells of a method are scored on."""
    names = params.evaluate.benchmarks
    return _scored(params, own, names) | {"code": evaluation_code(params, names)}


def evaluation_code(params: Params, names: Iterable[str]) -> str:
    """The fingerprint of the code that scores these benchmarks."""
    return code_of("evaluate", _benchmarks(params, names))


def wise_ft(params: Params, method: str) -> dict[str, Any]:
    """The lines of a method."""
    names = params.wise_ft.benchmarks or params.evaluate.benchmarks
    lines = [cell for cell in line_cells(params) if cell.method == method]
    return _scored(params, lines, names) | {
        "alphas": list(params.wise_ft.alphas),
        "code": code_of("wise_ft", _benchmarks(params, names)),
    }


def _scored(params: Params, wanted: Iterable[Cell], names: Iterable[str]) -> dict[str, Any]:
    asked = params.evaluate
    return {
        "cells": {_short(cell): {"cell": cell.plain} for cell in wanted},
        "benchmarks": {name: asdict(params.benchmarks[name]) for name in names},
        "how": asdict(asked.scoring),
    }


def _shown(params: Params) -> dict[str, Any]:
    """What the comparison is made of."""
    return {
        "grid": asdict(params.grid),
        "report": asdict(params.report),
        "benchmarks": list(params.evaluate.benchmarks),
        "lines": [cell.name for cell in line_cells(params)],
    }


def _short(cell: Cell) -> str:
    """backbone-data-seed: the cell's folder below its method's."""
    return cell.place.partition("/")[2]


def _benchmarks(params: Params, names: Iterable[str]) -> list[str]:
    modules = (params.benchmarks[name].benchmark or name for name in names)
    return [plugins.locate(plugins.BENCHMARKS, module) for module in modules]


def _methods(params: Params) -> list[str]:
    return [plugins.locate(plugins.METHODS, name.partition(".")[0]) for name in params.grid.methods]


def code_of(stage: str, more: Iterable[str] = ()) -> str:
    """The fingerprint of the code that a stage's result depends on, with the modules of its plug-ins."""
    return _digest(ENTRIES[stage], *sorted(set(more)))


@functools.cache
def _digest(*entries: str) -> str:
    return code_hash.hash_code(*entries)

"""The plan: what each item of each stage is asked to do, and with which code: plan/<stage>/<item>.json.

Every other stage of dvc.yaml depends on its own plan file and on data, so that an edit makes stale what it can change
and nothing else. No list of parameters or modules is kept by hand.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compclip.base import code, links, plugins
from compclip.base.files import update_json
from compclip.config import columns, wanted
from compclip.config.cell import Cell
from compclip.config.grid import line_cells, resolved
from compclip.config.sections import Data, Params, Run
from compclip.config.written import plain_yaml

# The entry of each stage's code; what a plug-in brings is added by its name.
ENTRIES = {
    "scenes": "compclip.data.scenes.generate",
    "recaption": "compclip.data.recaption",
    "rewrite": "compclip.data.rewrite",
    "annotate": "compclip.data.annotate",
    "backbone": "compclip.model.backbone",
    "benchmark": "compclip.evaluate.census",
    "neighbours": "compclip.train.nearest",
    "train": "compclip.train.finish",
    "evaluate": "compclip.evaluate.score",
    "wise_ft": "compclip.evaluate.line",
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


def watched(params: Params) -> list[str]:
    """The files of other packages' code that the plan depends on."""
    located = [
        *_methods(params),
        *_benchmarks(params, params.benchmarks),
        *itertools.chain(*map(_reads, params.data.values())),
    ]
    others = [module for module in located if module.partition(".")[0] != code.OURS]
    return sorted({str(file) for file in code.closure(*others).values()})


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
    every = list(resolved(params))
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
    module, own = plugins.find(plugins.METHODS, base), list(runs)
    found = {_short(run.cell): run.plain for run in own}
    near = [_short(run.cell) for run in own if wanted.neighbours(base, run.method)]
    asked = {"method": method, "trains": getattr(module, "TRAINS", True), "near": near, "cells": found}
    asked["texts"] = {name: plain_yaml(run) for name, run in found.items()}
    if reads := getattr(module, "reads", None):
        asked["reads"] = {_short(run.cell): reads(run.method) for run in own}
    return asked | {"code": code_of("train", [plugins.locate(plugins.METHODS, base)])}


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
        "how": asdict(asked.how),
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
    return code.digest(*entries)

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
from compclip.config import columns, training_code
from compclip.config.grid import Cell, Run, first_views, list_line_cells, resolve_all
from compclip.config.sections import Data, Params
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
    "wise_ft": "compclip.evaluate.score",
    "report": "compclip.report.__main__",
    "track": "compclip.track.sync",
}


def write_plan(params: Params, folder: Path) -> None:
    """Replace the folder's files by the plan of `params`; files of items that are gone are removed."""
    files = {f"{stage}/{item}.json": document for stage, item, document in build_documents(params)}
    for path in sorted(folder.rglob("*.json")):
        if str(path.relative_to(folder)) not in files:
            links.remove(path)
    for name, document in files.items():
        update_json(folder / name, document)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Take apart what a file of the plan says. Raises UserError where it says something else."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path}: damaged ({type(error).__name__}); run `dvc repro plan` again") from error


def build_documents(params: Params) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (stage, item, document) of every file."""
    yield "scenes", "scenes", {"params": asdict(params.scenes), "code": hash_stage_code("scenes")}
    yield from _data_documents(params)
    for name, backbone in params.backbones.items():
        section = {"params": asdict(backbone), "seed": params.scenes.seed}
        yield "backbone", name, section | {"code": hash_stage_code("backbone")}
    for name, benchmark in params.benchmarks.items():
        scored_by = hash_stage_code("benchmark", _benchmark_modules(params, [name]))
        checked = {"columns": columns.select_metrics(params, name), "scorers": params.evaluate.scorers}
        yield "benchmark", name, {"params": asdict(benchmark), **checked, "code": scored_by}
    all_runs = list(resolve_all(params))
    yield "neighbours", "neighbours", neighbours_document(all_runs)
    for method, runs in itertools.groupby(all_runs, key=lambda run: run.cell.method):
        method_runs = list(runs)
        yield "train", method, train_document(method, method_runs)
        yield "evaluate", method, evaluate_document(params, [run.cell for run in method_runs])
    for method in params.wise_ft.methods:
        yield "wise_ft", method, wise_ft_document(params, method)
    yield (
        "report",
        "report",
        _describe_comparison(params) | {"code": hash_stage_code("report", _method_modules(params))},
    )
    yield "track", "track", _describe_comparison(params) | {"code": hash_stage_code("track")}


def _data_documents(params: Params) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name, data in params.data.items():
        section = asdict(data)
        writer = section.pop("rewriter") or section["rewrites"]
        masked = section.pop("masked")
        section.pop("rewrites")
        annotation = {
            "rewritten": bool(writer or masked),
            "exclude": section.pop("exclude"),
            "texts": section.pop("texts"),
            "relatives": section.pop("relatives"),
        }
        yield "recaption", name, {"params": section, "code": hash_data_code("recaption", data)}
        yield "rewrite", name, {"params": writer, "masked": masked, "code": hash_data_code("rewrite", data)}
        yield "annotate", name, {"params": annotation, "code": hash_data_code("annotate", data)}


def hash_data_code(stage: str, data: Data) -> str:
    """Return the hash of the code that makes the shards of a data set."""
    if stage != "recaption":
        return hash_stage_code(stage)
    source = plugins.locate_plugin(plugins.SOURCES, data.source)
    return hash_stage_code(stage, (source, plugins.locate_plugin(plugins.CAPTIONERS, data.captioner)))


def train_document(method: str, runs: Iterable[Run]) -> dict[str, Any]:
    """Return the runs of a method, resolved as config.yaml has them."""
    base = method.partition(".")[0]
    declared, method_runs = load_method(base), list(runs)
    cells = {_cell_folder(run.cell): run.plain for run in method_runs}
    near_cells = [_cell_folder(run.cell) for run in method_runs if first_views(base, run.method).neighbours]
    document = {"method": method, "trains": declared.TRAINS, "near": near_cells, "cells": cells}
    reads = {_cell_folder(run.cell): declared.reads(run.method) for run in method_runs}
    if any(reads.values()):
        document["reads"] = reads
    return document | {"code": training_code.hash_training_code(base)}


def neighbours_document(runs: Iterable[Run]) -> dict[str, Any]:
    """Return the pairs of data and backbone whose neighbours some run shows; without pairs there is no code."""
    cells = (run.cell for run in runs if first_views(run.method_name, run.method).neighbours)
    pairs = sorted({(str(cell.data), str(cell.backbone)) for cell in cells})
    return {"pairs": pairs, "code": hash_stage_code("neighbours") if pairs else ""}


def evaluate_document(params: Params, cells: Iterable[Cell]) -> dict[str, Any]:
    """Return what the cells of a method are scored on."""
    names = params.evaluate.benchmarks
    return _describe_scoring(params, cells, names) | {"code": hash_evaluation_code(params, names)}


def hash_evaluation_code(params: Params, names: Iterable[str]) -> str:
    """Return the hash of the code that scores these benchmarks."""
    return hash_stage_code("evaluate", _benchmark_modules(params, names))


def wise_ft_document(params: Params, method: str) -> dict[str, Any]:
    """Return the lines of a method between backbone and trained weights."""
    names = params.wise_ft.benchmarks or params.evaluate.benchmarks
    lines = [cell for cell in list_line_cells(params) if cell.method == method]
    return _describe_scoring(params, lines, names) | {
        "alphas": list(params.wise_ft.alphas),
        "code": hash_stage_code("wise_ft", _benchmark_modules(params, names)),
    }


def _describe_scoring(params: Params, cells: Iterable[Cell], names: Iterable[str]) -> dict[str, Any]:
    section = params.evaluate
    return {
        "cells": {_cell_folder(cell): {"cell": cell.plain} for cell in cells},
        "benchmarks": {name: asdict(params.benchmarks[name]) for name in names},
        "how": asdict(section.scoring),
    }


def _describe_comparison(params: Params) -> dict[str, Any]:
    """Return the parameters that the comparison depends on."""
    return {
        "grid": asdict(params.grid),
        "report": asdict(params.report),
        "benchmarks": list(params.evaluate.benchmarks),
        "lines": [cell.name for cell in list_line_cells(params)],
    }


def _cell_folder(cell: Cell) -> str:
    """Return backbone-data-seed: the cell's folder below its method's."""
    return cell.folder.partition("/")[2]


def _benchmark_modules(params: Params, names: Iterable[str]) -> list[str]:
    modules = (params.benchmarks[name].benchmark or name for name in names)
    return [plugins.locate_plugin(plugins.BENCHMARKS, module) for module in modules]


def _method_modules(params: Params) -> list[str]:
    return [plugins.locate_plugin(plugins.METHODS, name.partition(".")[0]) for name in params.grid.methods]


def hash_stage_code(stage: str, plugin_modules: Iterable[str] = ()) -> str:
    """Return the hash of the code that a stage's result depends on, with the modules of its plug-ins."""
    return _hash_entries(ENTRIES[stage], *sorted(set(plugin_modules)))


@functools.cache
def _hash_entries(*entries: str) -> str:
    return code_hash.hash_code(*entries)

"""Write the plan: for each item of each stage its parameters and the hash of its code, in plan/<stage>/<item>.json.

Every other stage of dvc.yaml depends only on its own plan file and on data. So an edit makes exactly those results
stale that it can change, and no list of parameters or modules has to be maintained by hand.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from compclip.base import code_hash, links, plugins
from compclip.base.files import fingerprint, read_mapping, understand, update_json
from compclip.config import columns, drawn_scenes, training_code, tuning
from compclip.config.cell import Cell
from compclip.config.grid import Run, first_views, list_line_cells, resolve_all
from compclip.config.sections import Backbone, Data, Params
from compclip.interface.method import list_columns, load_method

FOLDER = Path("plan")
# The entry module of each stage's code; the modules of plug-ins are added by name.
ENTRIES = {
    "scenes": "compclip.scenes.generate",
    "recaption": "compclip.prepare.recaption_shards",
    "rewrite": "compclip.prepare.rewrite_shards",
    "annotate": "compclip.prepare.annotate_shards",
    "backbone": "compclip.model.backbone",
    "benchmark": "compclip.evaluate.benchmark_module",
    "neighbours": "compclip.train.neighbours",
    "tune": "compclip.sweep.tune_stage",
    "train": training_code.ENTRY,
    "evaluate": "compclip.evaluate.score",
    "wise_ft": "compclip.evaluate.score",
    "blind": "compclip.evaluate.blind_rows",
    "report": "compclip.report.__main__",
    "track": "compclip.track.sync",
}


def write_plan(params: Params, folder: Path) -> None:
    """Write the plan of `params` into a folder, and remove files of items that no longer exist."""
    files = {}
    for stage, item, document in build_documents(params):
        files[f"{stage}/{item}.json"] = document
    for path in sorted(folder.rglob("*.json")):
        if str(path.relative_to(folder)) not in files:
            links.remove(path)
    for name, document in files.items():
        update_json(folder / name, document)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Guard the reading of a plan file's content: raise UserError if it is not what is expected."""
    with understand(path, "run `compclip repro plan` again"):
        yield


def build_documents(params: Params) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (stage, item, document) of each plan file, without the values that `tune` chooses, a later stage."""
    params = replace(params, tuned={})
    yield "scenes", "scenes", {"params": asdict(params.scenes), "code": hash_stage_code("scenes")}
    for name, data in params.data.items():
        yield from _data_documents(name, data)
    for name, backbone in params.backbones.items():
        yield "backbone", name, describe_backbone(backbone, params.scenes.seed)
    for name, benchmark in params.benchmarks.items():
        scoring_code = hash_stage_code("benchmark", _benchmark_modules(params, [name]))
        report_columns = columns.select_metrics(params, name)
        yield "benchmark", name, {"params": asdict(benchmark), "columns": report_columns, "code": scoring_code}
    all_runs = list(resolve_all(params))
    pairs = {(str(run.cell.data), str(run.cell.backbone)) for run in all_runs if _shows_neighbours(run)}
    yield "neighbours", "neighbours", {"pairs": sorted(pairs), "code": hash_stage_code("neighbours") if pairs else ""}
    requests = tuning.list_requests(params)
    tuning_code: dict[str, Any] = {"code": ""}
    if requests:
        # the code that scores a study's trials, and the code that trains those of each method
        trial_code = [hash_evaluation_code(params, params.evaluate.benchmarks)]
        trial_code += map(training_code.hash_training_code, requests)
        tuning_code = {"code": hash_stage_code("tune"), "runs": trial_code}
    yield "tune", "tune", {"studies": requests, **tuning_code}
    for method, group in itertools.groupby(all_runs, key=lambda run: run.cell.method):
        runs = list(group)
        yield "train", method, _train_document(method, runs)
        scoring = _describe_scoring(params, [run.cell for run in runs], params.evaluate.benchmarks)
        scoring |= _describe_snapshots(params, runs)
        yield "evaluate", method, scoring | {"code": hash_evaluation_code(params, params.evaluate.benchmarks)}
    for method in params.wise_ft.methods:
        names = params.wise_ft.benchmarks or params.evaluate.benchmarks
        lines = [cell for cell in list_line_cells(params) if cell.method == method]
        scoring = _describe_scoring(params, lines, names) | {"alphas": list(params.wise_ft.alphas)}
        line_code = hash_stage_code("wise_ft", _benchmark_modules(params, names))
        yield "wise_ft", method, scoring | {"code": line_code}
    for name in params.data:
        yield "blind", name, _describe_blind(params)
    comparison = {
        "grid": asdict(params.grid),
        "report": asdict(params.report),
        "benchmarks": list(params.evaluate.benchmarks),
        "splits": [params.evaluate.validation_share, {n: b.validation for n, b in params.benchmarks.items()}],
        "lines": [cell.name for cell in list_line_cells(params)],
    }
    methods = [plugins.locate_plugin(plugins.METHODS, name.partition(".")[0]) for name in params.grid.methods]
    studies = sorted(Path("studies").glob("*/trials.json"))  # the report marks rows that they tuned
    comparison["studies"] = fingerprint(*studies) if studies else ""
    yield "report", "report", comparison | {"code": hash_stage_code("report", methods)}
    yield "track", "track", comparison | {"code": hash_stage_code("track")}


def describe_backbone(backbone: Backbone, seed: int) -> dict[str, Any]:
    """Return the plan of the stage `backbone` for one section."""
    return {"params": asdict(backbone), "seed": seed, "code": hash_stage_code("backbone")}


def read_planned(stage: str, item: str) -> dict[str, Any]:
    """Return the written plan of an item; empty if there is none."""
    path = FOLDER / stage / f"{item}.json"
    return dict(read_mapping(path)) if path.is_file() else {}


def list_idle(params: Params) -> set[str]:
    """Return the stages of dvc.yaml (`stage` or `stage@item`) that have nothing to do for these parameters."""
    idle = set()
    if not drawn_scenes.list_drawn_benchmarks(params):
        idle.add("scenes")
    if not any(map(_shows_neighbours, resolve_all(params))):
        idle.add("neighbours")
    if not tuning.list_requests(params):
        idle.add("tune")
    for name, data in params.data.items():
        if not data.is_rewritten:
            idle.add(f"rewrite@{name}")
        if not params.evaluate.blind:
            idle.add(f"blind@{name}")
    return idle


def _data_documents(name: str, data: Data) -> Iterator[tuple[str, str, dict[str, Any]]]:
    section = asdict(data)
    writer = section.pop("rewriter") or section["rewrites"]
    masked = section.pop("masked")
    section.pop("rewrites")
    annotation: dict[str, Any] = {"rewritten": bool(writer or masked)}
    for key in ("exclude", "texts", "relatives", "relative_weights", "replacement_captions", "short_side"):
        annotation[key] = section.pop(key)
    yield "recaption", name, {"params": section, "code": hash_data_code("recaption", data)}
    rewriting = {"params": writer, "masked": masked, "code": hash_data_code("rewrite", data)}
    if masked.get("dense"):
        rewriting["dense"] = annotation["texts"].get("dense")
    yield "rewrite", name, rewriting
    yield "annotate", name, {"params": annotation, "code": hash_data_code("annotate", data)}


def _train_document(method: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Return the plan of the stage `train` for a method: its runs, resolved as in config.yaml, and its code."""
    base = method.partition(".")[0]
    declared = load_method(base)
    near = []
    cells = {}
    read_columns = {}
    reads = {}
    for run in runs:
        folder = _cell_folder(run.cell)
        if _shows_neighbours(run):
            near.append(folder)
        cells[folder] = run.plain
        read_columns[folder] = sorted(list_columns(declared, run.method))
        reads[folder] = declared.reads(run.method)
    document = {"method": method, "trains": declared.TRAINS, "near": near, "cells": cells, "columns": read_columns}
    if any(reads.values()):
        document["reads"] = reads
    return document | {"code": training_code.hash_training_code(base)}


def _shows_neighbours(run: Run) -> bool:
    return first_views(run.method_name, run.method).neighbours > 0


def _describe_scoring(params: Params, cells: Iterable[Cell], names: Iterable[str]) -> dict[str, Any]:
    return {
        "cells": {_cell_folder(cell): {"cell": cell.plain} for cell in cells},
        "benchmarks": {name: asdict(params.benchmarks[name]) for name in names},
        "how": asdict(params.evaluate.scoring),
    }


def _describe_snapshots(params: Params, runs: Sequence[Run]) -> dict[str, Any]:
    """Return the snapshots of a method's runs by folder, and the terms by which one is chosen; empty without any."""
    requests = {}
    for run in runs:
        if run.train.snapshots:
            request = {"shares": list(run.train.snapshots), "column": run.train.choose}
            requests[_cell_folder(run.cell)] = request
    if not any(request["column"] for request in requests.values()):
        return {"snapshots": {"requests": requests}} if requests else {}
    authors = {name: section.validation for name, section in params.benchmarks.items() if section.validation}
    terms = {"share": params.evaluate.validation_share, "authors": authors, "columns": list(params.report.columns)}
    return {"snapshots": {"requests": requests, "terms": terms}}


def _describe_blind(params: Params) -> dict[str, Any]:
    """Return what the blind rows of a data set depend on besides its captions."""
    evaluate = params.evaluate
    return {
        "rows": list(evaluate.blind),
        "benchmarks": {name: asdict(params.benchmarks[name]) for name in evaluate.benchmarks},
        "ties": evaluate.ties,
        "code": hash_stage_code("blind", _benchmark_modules(params, evaluate.benchmarks)),
    }


def _cell_folder(cell: Cell) -> str:
    """Return backbone-data-seed, the cell's folder inside that of its method."""
    return cell.folder.partition("/")[2]


def hash_data_code(stage: str, data: Data) -> str:
    """Return the hash of the code that makes the shards of a data set."""
    if stage != "recaption":
        return hash_stage_code(stage)
    source = plugins.locate_plugin(plugins.SOURCES, data.source)
    return hash_stage_code(stage, (source, plugins.locate_plugin(plugins.CAPTIONERS, data.captioner)))


def hash_evaluation_code(params: Params, names: Iterable[str]) -> str:
    """Return the hash of the code that scores these benchmarks."""
    return hash_stage_code("evaluate", _benchmark_modules(params, names))


def _benchmark_modules(params: Params, names: Iterable[str]) -> list[str]:
    modules = []
    for name in names:
        modules.append(plugins.locate_plugin(plugins.BENCHMARKS, params.benchmarks[name].benchmark or name))
    return modules


def hash_stage_code(stage: str, plugin_modules: Iterable[str] = ()) -> str:
    """Return the hash of the code that a stage's result depends on, with the modules of its plug-ins."""
    return _hash_entries(ENTRIES[stage], *sorted(set(plugin_modules)))


@functools.cache
def _hash_entries(*entries: str) -> str:
    return code_hash.hash_code(*entries)

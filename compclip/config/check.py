"""What params.yaml may say: names that exist, sections that fit together."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import PurePath
from typing import Any

from compclip.base import plugins
from compclip.base.errors import UserError, unknown
from compclip.base.names import Name
from compclip.config import columns, pictures, wanted
from compclip.config.cell import PRETRAINED
from compclip.config.grid import (
    PER_DATA,
    benchmark_config,
    captioner_config,
    captions_config,
    cells,
    masked_config,
    method_config,
    rewriter_config,
    rewrites_config,
    sets,
    texts_config,
)
from compclip.config.sections import Data, Params
from compclip.config.structured import SEEDS, mapping

WORLD = "data/scenes_world"  # the out of the stage `scenes`
# What lies in data/, or beside a benchmark's results, by a name of its own.
OWN = {
    "data": ("benchmarks", "fingerprints", "looks", "neighbours", "overlaps", "scenes_world"),
    "benchmark": ("summary",),
}


def name(text: str, kind: str) -> Name:
    """A key of `data`, `backbones`, `benchmarks` or `methods`. Raises UserError where it cannot name files."""
    if text in OWN.get(kind, ()):
        raise UserError(f"{kind} {text!r}: is what the project calls files of its own; rename it")
    return Name(text, kind)


def alone(params: Params) -> None:
    """Raise UserError for a section that cannot be meant: unknown names, empty lists, a name that stands twice."""
    for name, raw in params.methods.items():
        _check_method(params, name, mapping(raw, f"methods.{name}"))
    for name, data in params.data.items():
        plugins.find(plugins.SOURCES, data.source)
        captioner_config(data, f"data.{name}.options")
        captions_config(data, f"data.{name}.captions")
        _check_pictures(data, f"data.{name}")
        rewriter_config(data, f"data.{name}.rewriter")
        rewrites_config(data, f"data.{name}.rewrites")
        texts_config(data, f"data.{name}.texts")
        masked_config(data, f"data.{name}.masked")
        for benchmark in _distinct(data.exclude, f"data.{name}.exclude"):
            if benchmark not in params.benchmarks:
                raise unknown("benchmark", benchmark, params.benchmarks, f"data.{name}.exclude")
    for name, benchmark in params.benchmarks.items():
        benchmark_config(name, benchmark, f"benchmarks.{name}.options")
    for name in _distinct(params.evaluate.benchmarks, "evaluate.benchmarks"):
        if name not in params.benchmarks:
            raise unknown("benchmark", name, params.benchmarks, "evaluate.benchmarks")
    _check_grid(params)
    _check_wise_ft(params)


def _check_method(params: Params, name: str, raw: dict) -> None:
    variants = mapping(raw.get("variants"), f"methods.{name}.variants")
    for method in (name, *(f"{name}.{Name(variant, f'variant of {name}')}" for variant in variants)):
        method_config(params, method)
    for data in sets(params, name):
        if data not in params.data:
            raise unknown("data", data, params.data, f"methods.{name}.{PER_DATA}")
        method_config(params, name, data)


def _check_grid(params: Params) -> None:
    grid = params.grid
    for f in fields(grid):
        if not _distinct(getattr(grid, f.name), f"grid.{f.name}"):
            raise UserError(f"grid.{f.name}=[]: must name at least one")
    for method in grid.methods:
        base = method.partition(".")[0]
        if base not in params.methods:
            raise unknown("method", base, params.methods, "grid.methods")
        config, _ = method_config(params, method)
        _check_wants(f"methods.{method}", method, config, params)
        _check_backbones(params, method, config)
        lacking = [d for d in grid.data if (own := params.data.get(d)) and not (own.rewriter or own.rewrites)]
        if getattr(config, "source", "") == "llm" and lacking:
            raise UserError(
                f"methods.{method}.source=llm: data.{lacking[0]} names no rewriter; add data.{lacking[0]}"
                ".rewriter with url and model"
            )
        for data in grid.data:
            if data in params.data:
                _check_needs(params, method, data)
    for name, table in (("backbones", params.backbones), ("data", params.data)):
        for value in getattr(grid, name):
            if value not in table:
                raise unknown(name.rstrip("s"), value, table, f"grid.{name}")
    if not 0 <= min(grid.seeds) <= max(grid.seeds) < SEEDS:
        raise UserError(f"grid.seeds={grid.seeds}: seeds must be >= 0 and < 2**32")
    _distinct([cell.name for cell in cells(params)], "the names of the grid's cells")


def _check_needs(params: Params, method: str, data: str) -> None:
    """Raise UserError for a data set that has not what a method says it `needs`, as a mapping of keys to values."""
    needs = getattr(plugins.find(plugins.METHODS, method.partition(".")[0]), "needs", None)
    for key, value in (needs(method_config(params, method, data)[0]) if needs else {}).items():
        if getattr(params.data[data], key) != value:
            written = str(value).lower() if isinstance(value, bool) else value
            raise UserError(f"methods.{method}: needs data.{data}.{key}: {written}; set it there")


def _check_pictures(data: Data, where: str) -> None:
    """Negative images must be such as its source can have them."""
    pictures.of(data, f"{where}.negative_images")
    if (asked := pictures.members(data)) and not hasattr(plugins.find(plugins.SOURCES, data.source), "MEMBERS"):
        raise UserError(f"{where}: source {data.source!r} reads no tars, and has no member {asked[0]!r}; give a file")


def _check_wants(where: str, method: str, config: object, params: Params) -> None:
    """What a method asks of data sets besides captions must be there."""
    bare = [d for d in params.grid.data if (own := params.data.get(d)) and not own.negative_images]
    if bare and wanted.negative_images(method, config):
        raise UserError(f"{where}: shows negative images; data.{bare[0]} has none: add data.{bare[0]}.negative_images")
    for key in wanted.beside_captions(method, config):
        kind, _, part = key.partition(".")
        for d in params.grid.data:
            if (own := params.data.get(d)) and not (getattr(own, kind) if not part else getattr(own, kind).get(part)):
                raise UserError(f"{where}: its rules read {key}, which data.{d} has not; add data.{d}.{key}")
    if wanted.neighbours(method, config) and (asked := wanted.nearest(method, config)) > wanted.STORED:
        raise UserError(
            f"{where}: draws from the {asked} nearest pictures, of which {wanted.STORED} are kept; lower it"
        )


def _check_backbones(params: Params, method: str, config: Any) -> None:
    """What a method itself says of the backbones that it stands beside."""
    if check := getattr(plugins.find(plugins.METHODS, method.partition(".")[0]), "check", None):
        for name in params.grid.backbones:
            if name in params.backbones:
                check(config, params.backbones[name], f"grid: methods.{method} on backbones.{name}")


def _check_wise_ft(params: Params) -> None:
    for name in _distinct(params.wise_ft.benchmarks, "wise_ft.benchmarks"):
        if name not in params.benchmarks:
            raise unknown("benchmark", name, params.benchmarks, "wise_ft.benchmarks")
    for name in _distinct(params.wise_ft.methods, "wise_ft.methods"):
        if name.partition(".")[0] not in params.methods.keys() - {"pretrained"}:
            raise unknown("method", name, params.methods.keys() - {"pretrained"}, "wise_ft.methods")
        method_config(params, name)


def _distinct(values: list, where: str) -> list:
    for i, value in enumerate(values):
        if value in values[:i]:
            raise UserError(f"{where}: {value!r} stands twice; remove or rename one")
    return values


def together(params: Params) -> None:
    """Raise UserError for sections that are fine alone and do not fit together: a stage would fail after training."""
    if not params.evaluate.benchmarks:
        raise UserError("evaluate.benchmarks=[]: must name at least one")
    _check_lines(params)
    columns.check(params)
    _check_world(params)
    reference(params)


def reference(params: Params) -> None:
    """Raise UserError where report.reference is no method of the grid, or the one that all are compared with anyway."""
    name = params.report.reference
    if name == PRETRAINED:
        raise UserError(f"report.reference={name}: all are compared with it anyway; name another method or remove it")
    if name and name not in params.grid.methods:
        raise unknown("method", name, set(params.grid.methods) - {PRETRAINED}, "report.reference, in grid.methods")


def _check_world(params: Params) -> None:
    """Data sets of the embedded world need a benchmark of it: DVC knows by that alone that it is to be made first."""
    names = [name for name, data in params.data.items() if _in_world(data.path, data.images)]
    if names and not any(_in_world(benchmark.path, benchmark.images) for benchmark in params.benchmarks.values()):
        raise UserError(
            f"data.{names[0]}: lies in {WORLD}, which is made for benchmarks in it, and there is none; add "
            f"benchmarks.world: {{benchmark: retrieval, path: {WORLD}/retrieval/dataset.json, images: {WORLD}/test}}"
        )


def _in_world(*paths: str) -> bool:
    return any(PurePath(os.path.normpath(path)).is_relative_to(WORLD) for path in paths)


def _check_lines(params: Params) -> None:
    """A run that wise_ft names and the grid lacks: its stage would wait for a checkpoint."""
    seeds = params.wise_ft.seeds if params.wise_ft.methods else []  # of no method: no run
    for name, named, there in (
        ("methods", params.wise_ft.methods, params.grid.methods),
        ("seeds", seeds, params.grid.seeds),
    ):
        if absent := [value for value in named if value not in there]:
            raise UserError(f"wise_ft.{name}: {absent[0]} is not in grid.{name}; add it there or remove it here")

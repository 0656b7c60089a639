"""What params.yaml may say: names that exist, sections that fit together."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import PurePath
from typing import Any

from compclip.base import plugins
from compclip.base.errors import UserError, unknown
from compclip.base.safe_names import SafeName
from compclip.config import columns, released_lists
from compclip.config.grid import (
    PER_DATA,
    PRETRAINED,
    benchmark_config,
    captioner_config,
    first_views,
    list_cells,
    method_config,
    per_data_values,
    rewriter_config,
)
from compclip.config.sections import Data, Params
from compclip.config.validation import mapping
from compclip.interface.method import load_method
from compclip.interface.views import STORED_NEIGHBOURS
from compclip.text.annotation import required_key

WORLD = "data/scenes_world"  # the out of the stage `scenes`
# What lies in data/, or beside a benchmark's results, by a name of its own.
RESERVED = {
    "data": ("benchmarks", "fingerprints", "looks", "neighbours", "overlaps", "scenes_world"),
    "benchmark": ("summary",),
}


def check_name(text: str, kind: str) -> SafeName:
    """Return a key of `data`, `backbones`, `benchmarks` or `methods`. Raises UserError where it cannot name files."""
    if text in RESERVED.get(kind, ()):
        raise UserError(f"{kind} {text!r}: is what the project calls files of its own; rename it")
    return SafeName(text, kind)


def check_sections(params: Params) -> None:
    """Raise UserError for a section that cannot be meant: unknown names, empty lists, a name that stands twice."""
    for name, raw in params.methods.items():
        _check_method(params, name, mapping(raw, f"methods.{name}"))
    for name, data in params.data.items():
        plugins.load_plugin(plugins.SOURCES, data.source, f"data.{name}.source")
        captioner_config(data, f"data.{name}.options")
        released_lists.captions_config(data, f"data.{name}.captions")
        _check_pictures(data, f"data.{name}")
        rewriter_config(data, f"data.{name}.rewriter")
        released_lists.rewrites_config(data, f"data.{name}.rewrites")
        released_lists.texts_config(data, f"data.{name}.texts")
        released_lists.masked_config(data, f"data.{name}.masked")
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
    for method in (name, *(f"{name}.{SafeName(variant, f'variant of {name}')}" for variant in variants)):
        method_config(params, method)
    for data in per_data_values(params, name):
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
        _check_requirements(f"methods.{method}", method, config, params)
        _check_backbones(params, method, config)
        for d in grid.data if getattr(config, "source", "") == "llm" else ():
            if (section := params.data.get(d)) and not (section.rewriter or section.rewrites):
                raise UserError(
                    f"methods.{method}.source=llm: data.{d} names no rewriter; add data.{d}.rewriter with url and model"
                )
        for data in grid.data:
            if data in params.data:
                _check_needs(params, method, data)
    for name, table in (("backbones", params.backbones), ("data", params.data)):
        for value in getattr(grid, name):
            if value not in table:
                raise unknown(name.rstrip("s"), value, table, f"grid.{name}")
    _distinct([cell.name for cell in list_cells(params)], "the names of the grid's cells")


def _check_needs(params: Params, method: str, data: str) -> None:
    """Raise UserError for a data set that has not what a method says it `needs`, as a mapping of keys to values."""
    for key, value in load_method(method).needs(method_config(params, method, data)[0]).items():
        if getattr(params.data[data], key) != value:
            text = str(value).lower() if isinstance(value, bool) else value
            raise UserError(f"methods.{method}: needs data.{data}.{key}: {text}; set it there")


def _check_pictures(data: Data, where: str) -> None:
    """Raise UserError for negative images or members of tars that the source cannot have."""
    released_lists.negative_images_config(data, f"{where}.negative_images")
    members = released_lists.tar_members(data)
    if members and not hasattr(plugins.load_plugin(plugins.SOURCES, data.source), "MEMBERS"):
        raise UserError(f"{where}: source {data.source!r} reads no tars, and has no member {members[0]!r}; give a file")


def _check_requirements(where: str, method: str, config: object, params: Params) -> None:
    """Raise UserError where a data set lacks texts or pictures that a method's views ask for."""
    bare = [d for d in params.grid.data if (section := params.data.get(d)) and not section.negative_images]
    views = first_views(method, config)
    if bare and views.negative_images:
        raise UserError(f"{where}: shows negative images; data.{bare[0]} has none: add data.{bare[0]}.negative_images")
    for key in sorted(filter(None, map(required_key, {*views.negatives, *views.positives}))):
        kind, _, entry = key.partition(".")
        for d in params.grid.data:
            texts = getattr(params.data.get(d), kind, None)
            if d in params.data and not (texts.get(entry) if texts and entry else texts):
                raise UserError(f"{where}: its rules read {key}, which data.{d} has not; add data.{d}.{key}")
    if views.neighbours and views.nearest > STORED_NEIGHBOURS:
        raise UserError(
            f"{where}: draws from the {views.nearest} nearest pictures, of which {STORED_NEIGHBOURS} are kept; lower it"
        )


def _check_backbones(params: Params, method: str, config: Any) -> None:
    """Let a method check the backbones of the grid that it is compared on."""
    for name in params.grid.backbones:
        if name in params.backbones:
            where = f"grid: methods.{method} on backbones.{name}"
            load_method(method).check(config, params.backbones[name], where)


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


def check_consistency(params: Params) -> None:
    """Raise UserError for sections that are fine alone and do not fit together: a stage would fail after training."""
    if not params.evaluate.benchmarks:
        raise UserError("evaluate.benchmarks=[]: must name at least one")
    _check_lines(params)
    columns.check_columns(params)
    _check_world(params)
    check_reference(params)


def check_reference(params: Params) -> None:
    """Raise UserError where report.reference is no method of the grid, or the one that all are compared with anyway."""
    name = params.report.reference
    if name == PRETRAINED:
        raise UserError(f"report.reference={name}: all are compared with it anyway; name another method or remove it")
    if name and name not in params.grid.methods:
        raise unknown("method", name, set(params.grid.methods) - {PRETRAINED}, "report.reference, in grid.methods")


def _check_world(params: Params) -> None:
    """Raise UserError for data of the embedded world without a benchmark of it, by which DVC knows to make it first."""
    names = [name for name, data in params.data.items() if _in_world(data.path, data.images)]
    if names and not any(_in_world(benchmark.path, benchmark.images) for benchmark in params.benchmarks.values()):
        raise UserError(
            f"data.{names[0]}: lies in {WORLD}, which is made for benchmarks in it, and there is none; add "
            f"benchmarks.world: {{benchmark: retrieval, path: {WORLD}/retrieval/dataset.json, images: {WORLD}/test}}"
        )


def _in_world(*paths: str) -> bool:
    return any(PurePath(os.path.normpath(path)).is_relative_to(WORLD) for path in paths)


def _check_lines(params: Params) -> None:
    """Raise UserError for a run that wise_ft names and the grid lacks: its stage would wait for a checkpoint."""
    seeds = params.wise_ft.seeds if params.wise_ft.methods else []  # of no method: no run
    for name, values, grid_values in (
        ("methods", params.wise_ft.methods, params.grid.methods),
        ("seeds", seeds, params.grid.seeds),
    ):
        if absent := [value for value in values if value not in grid_values]:
            raise UserError(f"wise_ft.{name}: {absent[0]} is not in grid.{name}; add it there or remove it here")

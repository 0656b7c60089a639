"""List the cells of the grid, resolve each to a run with all its parameters, and read and write runs as config.yaml."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from compclip.base import plugins, yaml_text
from compclip.base.errors import UserError, unknown
from compclip.base.safe_names import SafeName
from compclip.config.cell import Cell
from compclip.config.sections import Backbone, BenchmarkSection, Data, Params, Train
from compclip.config.servers import check_key
from compclip.config.validation import RequiredText, Seed, list_constants, list_fields, load_section, mapping
from compclip.interface.method import load_method
from compclip.interface.views import Views

PER_DATA = "per_data"  # methods.<name>.per_data.<data>: values for this data set only


@dataclass(frozen=True)
class CellSection:
    """A cell as files store it."""

    method: RequiredText
    backbone: RequiredText
    data: RequiredText
    seed: Seed


def parse_cell(raw: Any, where: str) -> Cell:
    """Return the cell that a file describes. Raises UserError naming `where` and the key."""
    section = load_section(CellSection, raw, where)
    try:
        return Cell(section.method, section.backbone, section.data, section.seed)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


@dataclass(frozen=True)
class Run:
    """A cell with all its parameters resolved: the input of training."""

    cell: Cell
    method: Any
    train: Train
    backbone: Backbone
    data: Data

    @property
    def plain(self) -> dict[str, Any]:
        """The run as plain values, for files and run keys."""
        return {**asdict(self), "cell": self.cell.plain, "method": list_values(self.method)}

    @property
    def method_name(self) -> str:
        """The name of the method's module, which is the cell's method without a `.variant`."""
        return self.cell.method.partition(".")[0]


def list_values(config: Any) -> dict[str, Any]:
    """Return the parameters and constants of a method, as files and run keys hold them."""
    return asdict(config) | list_constants(type(config))


def list_cells(params: Params) -> list[Cell]:
    """Return all cells of the grid, ordered by method first."""
    grid = params.grid
    places = itertools.product(grid.methods, grid.backbones, grid.data, grid.seeds)
    return [Cell(SafeName(m, "method"), SafeName(b, "backbone"), SafeName(d, "data"), seed) for m, b, d, seed in places]


def list_line_cells(params: Params) -> list[Cell]:
    """Return the cells of the grid that `wise_ft` selects."""
    return [c for c in list_cells(params) if c.method in params.wise_ft.methods and c.seed in params.wise_ft.seeds]


def resolve(params: Params, cell: Cell | str) -> Run:
    """Return the run of a cell, given or by name. Raises UserError for a cell that is not in the grid."""
    cells_by_name = {c.name: c for c in list_cells(params)}
    name = cell if isinstance(cell, str) else cell.name
    if name not in cells_by_name:
        raise unknown("cell", name, cells_by_name, "grid")
    return resolve_cell(params, cells_by_name[name])


def resolve_all(params: Params) -> Iterator[Run]:
    """Yield the run of each cell of the grid."""
    for cell in list_cells(params):
        yield resolve_cell(params, cell)


def resolve_cell(params: Params, cell: Cell) -> Run:
    """Return the run of a cell, with the values that the stage `tune` chose for it."""
    method, train = method_config(params, cell.method, cell.data)
    for name, value in params.tuned.get(cell.method, {}).get(f"{cell.backbone}-{cell.data}", {}).items():
        section, _, key = name.rpartition(".")
        train = replace(train, **{key: value}) if section else train
        method = method if section else replace(method, **{key: value})
    return Run(cell, method, train, params.backbones[cell.backbone], params.data[cell.data])


def method_config(params: Params, name: str, data: str = "") -> tuple[Any, Train]:
    """Return the Config of a method and its training settings on a data set.

    Values of the variant override those of `per_data` for the data set, which override the method's own values.
    """
    values: dict[str, Any] = {}
    train = asdict(params.train)
    for layer, where in _config_layers(params, name, data):
        train |= mapping(layer.pop("train", None), f"{where}.train")
        values |= layer
    if not load_method(name).TRAINS:
        train |= {"snapshots": [], "choose": ""}
    config = load_method(name).Config
    return load_section(config, values, where), load_section(Train, train, f"{where}.train")


def _config_layers(params: Params, name: str, data: str) -> list[tuple[dict, str]]:
    """Return the layers of values for a method, each with its place in params.yaml; later ones win."""
    base, dot, variant = name.partition(".")
    where = f"methods.{base}"
    method = mapping(params.methods.get(base), where)
    variants = mapping(method.pop("variants", None), f"{where}.variants")
    sets = mapping(method.pop(PER_DATA, None), f"{where}.{PER_DATA}")
    if dot and variant not in variants:
        raise unknown("variant", variant, variants, f"{where}.variants")
    layers = [(method, where)]
    for kind, table, key in ((PER_DATA, sets, data), ("variants", variants, variant)):
        if key in table:
            where_layer = f"{where}.{kind}.{key}"
            layers.append((mapping(table[key], where_layer), where_layer))
    return layers


def captioner_config(data: Data, where: str = "options") -> Any:
    """Return the captioner's parameters: its module's Config filled from `options`; None if it has no Config."""
    where_name = where.replace("options", "captioner")
    config = _load_options(plugins.CAPTIONERS, data.captioner, where_name, data.options, where)
    check_key(config, where)
    return config


def source_config(data: Data, where: str = "layout") -> Any:
    """Return the source's parameters: its module's Config filled from `layout`; None if it has no Config."""
    return _load_options(plugins.SOURCES, data.source, where.replace("layout", "source"), data.layout, where)


def benchmark_config(name: str, section: BenchmarkSection, where: str = "options") -> Any:
    """Return the benchmark's options: its module's Config filled from `options`; None if it has no Config."""
    module = section.benchmark or name
    return _load_options(plugins.BENCHMARKS, module, where.rpartition(".")[0], section.options, where)


def _load_options(package: str, name: str, where_name: str, options: dict[str, Any], where: str) -> Any:
    """Return a plug-in's Config filled from `options`. Raises UserError for options that are unknown or refused."""
    config = getattr(plugins.load_plugin(package, name, where_name), "Config", None)
    if config is None and options:
        raise UserError(f"{where}: {plugins.kind_name(package)} {name!r} has no options; remove them")
    return config and load_section(config, options, where)


def run_to_yaml(run: Run) -> str:
    """Return a run as YAML with all its parameters: the text of runs/<method>/<cell>/config.yaml."""
    return yaml_text.dump_yaml(run.plain)


def parse_run(raw: Mapping[str, Any], where: str) -> Run:
    """Return the run that plain values describe, such as those of a stored config.yaml.

    Options that no longer exist are ignored if they were off. Raises UserError naming `where` and the key.
    """
    cell = parse_cell(raw.get("cell"), f"{where}: cell")
    kinds = {"method": load_method(cell.method).Config, "train": Train, "backbone": Backbone, "data": Data}
    sections: list[Any] = []
    for name, kind in kinds.items():
        values = _leave_out_gone(kind, raw.get(name))
        sections.append(load_section(kind, values, f"{where}: {name}"))
    return Run(cell, *sections)


def _leave_out_gone(kind: type, values: Any) -> Any:
    """Return a section's values without options that no longer exist and that were off."""
    if not isinstance(values, Mapping):
        return values
    option_names = list_fields(kind)
    return {name: value for name, value in values.items() if name in option_names or value}


def read_run(path: str | Path) -> Run:
    """Return the run that a config.yaml describes."""
    config = yaml_text.read_yaml(path, "must be a mapping of sections such as cell and train")
    return parse_run(yaml_text.to_plain(config, str(path)), str(path))


def first_views(method: str, config: Any) -> Views:
    """Return the views of a method's first step; empty views for a method that trains nothing."""
    declared = load_method(method)
    return declared.views(config, 0) if declared.TRAINS else Views()

"""Check params.yaml as a whole: all names exist, and the sections fit together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from compclip.base import plugins
from compclip.base.errors import UserError, unknown
from compclip.base.safe_names import SafeName
from compclip.config import columns, released_lists, tuning
from compclip.config.cell import PRETRAINED
from compclip.config.drawn_scenes import WORLD, lies_in_scenes, list_drawn_benchmarks
from compclip.config.grid import (
    PER_DATA,
    benchmark_config,
    captioner_config,
    first_views,
    list_cells,
    method_config,
    source_config,
)
from compclip.config.sections import Data, Params
from compclip.config.servers import rewriter_config
from compclip.config.validation import mapping
from compclip.interface.method import load_method
from compclip.interface.views import STORED_NEIGHBOURS
from compclip.text.rule_columns import list_required_keys

# Names of the project's own files in data/, or next to the results of benchmarks.
RESERVED = {
    "data": ("benchmarks", "fingerprints", "held_out", "looks", "neighbours", "overlaps", "records", "scenes_world"),
    "benchmark": ("summary",),
}


def check_name(text: str, kind: str) -> SafeName:
    """Return a key of `data`, `backbones`, `benchmarks` or `methods`. Raises UserError if no file can be named so."""
    if text in RESERVED.get(kind, ()):
        raise UserError(f"{kind} {text!r}: is reserved for files of the project; choose another name")
    return SafeName(text, kind)


def check_sections(params: Params) -> None:
    """Check each section. Raises UserError for an unknown name, and for parameters that a plug-in refuses."""
    for name, raw in params.methods.items():
        _check_method(params, name, mapping(raw, f"methods.{name}"))
    for name, data in params.data.items():
        _check_data(params, data, f"data.{name}")
    for name, benchmark in params.benchmarks.items():
        benchmark_config(name, benchmark, f"benchmarks.{name}.options")
    _check_names("benchmark", params.evaluate.benchmarks, params.benchmarks, "evaluate.benchmarks")
    for name, benchmark in params.benchmarks.items():
        _check_validation_set(params, name, benchmark.validation)
    _check_grid(params)
    _check_names("benchmark", params.wise_ft.benchmarks, params.benchmarks, "wise_ft.benchmarks")
    trained = params.methods.keys() - {PRETRAINED}
    _check_names("method", params.wise_ft.methods, trained, "wise_ft.methods")
    for name in params.wise_ft.methods:
        method_config(params, name)
    tuning.check_tune(params)


def _check_names(kind: str, names: Iterable[str], table: Collection[str], where: str) -> None:
    """Raise UserError for a name that is not in the table; of a method's variant, only the method is looked up."""
    for name in names:
        entry = name.partition(".")[0] if kind == "method" else name
        if entry not in table:
            raise unknown(kind, entry, table, where)


def _check_validation_set(params: Params, name: str, validation: str) -> None:
    """Raise UserError for a validation set that is not scored, or that belongs to another kind of benchmark."""
    scored = params.evaluate.benchmarks
    if not validation or name not in scored:
        return
    module = params.benchmarks[name].benchmark or name
    alike = {section for section in scored if (params.benchmarks[section].benchmark or section) == module} - {name}
    if validation not in alike:
        raise unknown("benchmark", validation, alike, f"benchmarks.{name}.validation, evaluated and of {module}")


def _check_method(params: Params, name: str, raw: dict) -> None:
    variants = mapping(raw.get("variants"), f"methods.{name}.variants")
    method_config(params, name)
    for variant in variants:
        method_config(params, f"{name}.{SafeName(variant, f'variant of {name}')}")
    sets = mapping(raw.get(PER_DATA), f"methods.{name}.{PER_DATA}")
    _check_names("data", sets, params.data, f"methods.{name}.{PER_DATA}")
    for data in sets:
        method_config(params, name, data)


def _check_data(params: Params, data: Data, where: str) -> None:
    """Check a data set. Raises UserError if its source, captioner or lists are invalid, or do not fit together."""
    source = plugins.load_plugin(plugins.SOURCES, data.source, f"{where}.source")
    source_config(data, f"{where}.layout")
    captioner_config(data, f"{where}.options")
    released_lists.captions_config(data, f"{where}.captions")
    released_lists.negative_images_config(data, f"{where}.negative_images")
    released_lists.regions_config(data, f"{where}.regions")
    members = released_lists.tar_members(data)
    if members and not hasattr(source, "MEMBERS"):
        raise UserError(f"{where}: source {data.source!r} reads no tars with a member {members[0]!r}; give a file")
    rewriter_config(data, f"{where}.rewriter")
    released_lists.rewrites_config(data, f"{where}.rewrites")
    released_lists.texts_config(data, f"{where}.texts")
    released_lists.masked_config(data, f"{where}.masked")
    _check_names("benchmark", data.exclude, params.benchmarks, f"{where}.exclude")


def _check_grid(params: Params) -> None:
    grid = params.grid
    _check_names("method", grid.methods, params.methods, "grid.methods")
    _check_names("backbone", grid.backbones, params.backbones, "grid.backbones")
    _check_names("data", grid.data, params.data, "grid.data")
    for method in grid.methods:
        config, _ = method_config(params, method)
        for name in grid.backbones:
            where = f"grid: methods.{method} on backbones.{name}"
            load_method(method).check(config, params.backbones[name], where)
        for name in grid.data:
            _check_method_on_data(params, method, name)
    name_counts = Counter(cell.name for cell in list_cells(params))
    name, count = name_counts.most_common(1)[0]
    if count > 1:
        raise UserError(f"two cells of the grid have the name {name!r}; rename a method, backbone or data set")


def _check_method_on_data(params: Params, method: str, name: str) -> None:
    """Raise UserError if a data set lacks texts, pictures or settings that a method needs."""
    data = params.data[name]
    where = f"methods.{method}"
    config, _ = method_config(params, method, name)
    views = first_views(method, config)
    required_keys = set().union(*map(list_required_keys, views.rules))
    required_keys |= {key for key in ("negative_images", "regions") if getattr(views, key)}
    for key in sorted(required_keys):
        kind, _, entry = key.partition(".")
        section = getattr(data, kind)
        if not (section.get(entry) if entry else section):
            raise UserError(f"{where}: reads {key}, which data.{name} does not have; add data.{name}.{key}")
    if views.neighbours and views.nearest > STORED_NEIGHBOURS:
        raise UserError(
            f"{where}: draws from the {views.nearest} nearest pictures, and {STORED_NEIGHBOURS} are stored; lower it"
        )
    if getattr(config, "source", "") == "llm" and not (data.rewriter or data.rewrites):
        raise UserError(
            f"{where}.source=llm: data.{name} names no rewriter; add data.{name}.rewriter with url and model"
        )
    for key, value in load_method(method).needs(config).items():
        if getattr(data, key) != value:
            text = str(value).lower() if isinstance(value, bool) else value
            raise UserError(f"{where}: needs data.{name}.{key}: {text}; set it there")


def check_consistency(params: Params) -> None:
    """Raise UserError for sections that are valid alone but do not fit together, so that a later stage would fail."""
    if not params.evaluate.benchmarks:
        raise UserError("evaluate.benchmarks=[]: must name at least one")
    seeds = params.wise_ft.seeds if params.wise_ft.methods else []  # without methods no seed is used
    for name, values in (("methods", params.wise_ft.methods), ("seeds", seeds)):
        absent = sorted(map(str, set(values).difference(getattr(params.grid, name))))
        if absent:
            raise UserError(f"wise_ft.{name}: {absent[0]} is not in grid.{name}; add it there or remove it here")
    columns.check_columns(params)
    _check_world(params)
    check_reference(params)


def check_reference(params: Params) -> None:
    """Raise UserError if report.reference is not a method of the grid, or is `pretrained`, the default comparison."""
    name = params.report.reference
    if name == PRETRAINED:
        raise UserError(f"report.reference={name}: all are compared with it anyway; name another method or remove it")
    if name and name not in params.grid.methods:
        raise unknown("method", name, set(params.grid.methods) - {PRETRAINED}, "report.reference, in grid.methods")


def _check_world(params: Params) -> None:
    """Raise UserError if DVC would draw the embedded scenes for nothing, or not for data that need them.

    DVC draws them if the files of any benchmark lie in their folder, whether the benchmark is scored or not.
    """
    data = [name for name, section in params.data.items() if lies_in_scenes(section.path, section.images)]
    benchmarks = list_drawn_benchmarks(params)
    scored = {*params.evaluate.benchmarks, *params.wise_ft.benchmarks}
    if (data or benchmarks) and scored.isdisjoint(benchmarks) and not set(data) & set(params.grid.data):
        sections = [f"data.{name}" for name in data] + [f"benchmarks.{name}" for name in benchmarks]
        raise UserError(
            f"{', '.join(sections)}: in {WORLD}, of which nothing is trained on or scored; remove "
            f"{'them' if sections[1:] else 'it'}, since the scenes would be drawn for nothing"
        )
    if data and not benchmarks:
        raise UserError(
            f"data.{data[0]}: lies in {WORLD}, which is drawn only if a benchmark lies there; add "
            f"benchmarks.world: {{benchmark: retrieval, path: {WORLD}/retrieval/dataset.json, images: {WORLD}/test}}"
        )

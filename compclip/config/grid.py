"""The cells of the grid, and what each one's method, data and captioner are set to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from compclip.base import plugins
from compclip.base.errors import UserError, unknown
from compclip.base.names import Name
from compclip.config.captions import Captions, Released
from compclip.config.cell import Cell
from compclip.config.how import Benchmark
from compclip.config.sections import Data, Params, Run, Train
from compclip.config.servers import Rewriter, check_key
from compclip.config.structured import mapping, structured
from compclip.config.texts import TEXT_KINDS, Masked, MemberText, Texts

PER_DATA = "per_data"  # methods.<name>.per_data.<data>: what holds on this data set alone


def cells(params: Params) -> list[Cell]:
    """All cells of the grid, methods outermost."""
    grid = params.grid
    places = itertools.product(grid.methods, grid.backbones, grid.data, grid.seeds)
    return [Cell(Name(m, "method"), Name(b, "backbone"), Name(d, "data"), seed) for m, b, d, seed in places]


def line_cells(params: Params) -> list[Cell]:
    """The cells of the grid that wise_ft names."""
    return [c for c in cells(params) if c.method in params.wise_ft.methods and c.seed in params.wise_ft.seeds]


def resolve(params: Params, cell: Cell | str) -> Run:
    """A cell's run. Raises UserError for a cell that is not in the grid."""
    known, name = {c.name: c for c in cells(params)}, cell if isinstance(cell, str) else cell.name
    if name not in known:
        raise unknown("cell", name, known, "grid")
    cell = known[name]
    method, train = method_config(params, cell.method, cell.data)
    return Run(cell, method, train, params.backbones[cell.backbone], params.data[cell.data])


def resolved(params: Params) -> Iterator[Run]:
    """The run of every cell; what several cells have in common is worked out once."""
    made: dict[tuple[str, str], tuple[Any, Train]] = {}
    for cell in cells(params):
        shared = cell.method, cell.data
        if shared not in made:
            made[shared] = method_config(params, *shared)
        yield Run(cell, *made[shared], params.backbones[cell.backbone], params.data[cell.data])


def method_config(params: Params, name: str, data: str = "") -> tuple[Any, Train]:
    """The Config of a method and its training settings on a data set.

    A variant stands over what `per_data` says of that data set, and this over the method's own values.
    """
    values: dict[str, Any] = {}
    train = asdict(params.train)
    for layer, where in _layers(params, name, data):
        train |= mapping(layer.pop("train", None), f"{where}.train")
        values |= layer
    config = plugins.find(plugins.METHODS, name.partition(".")[0]).Config
    return structured(config, values, where), structured(Train, train, f"{where}.train")


def _layers(params: Params, name: str, data: str) -> list[tuple[dict, str]]:
    """What is said of a method, the weakest first, and where it is said."""
    base, dot, variant = name.partition(".")
    where = f"methods.{base}"
    own = mapping(params.methods.get(base), where)
    variants, sets = (mapping(own.pop(key, None), f"{where}.{key}") for key in ("variants", PER_DATA))
    if dot and variant not in variants:
        raise unknown("variant", variant, variants, f"{where}.variants")
    chosen = [("variants", variants, variant)] if dot else []
    chosen = [(PER_DATA, sets, data)] * (data in sets) + chosen
    named = [(table[key], f"{where}.{kind}.{key}") for kind, table, key in chosen]
    return [(own, where), *((mapping(raw, place), place) for raw, place in named)]


def sets(params: Params, base: str) -> dict:
    """What a method says of single data sets."""
    raw = mapping(params.methods.get(base), f"methods.{base}")
    return mapping(raw.get(PER_DATA), f"methods.{base}.{PER_DATA}")


def captioner_config(data: Data, where: str = "options") -> Any:
    """The captioner's own parameters: its module's Config filled from `options`; None where it has none."""
    kind = getattr(plugins.find(plugins.CAPTIONERS, data.captioner), "Config", None)
    if kind is None and data.options:
        raise UserError(f"{where}: captioner {data.captioner!r} has no options; remove them")
    config = kind and structured(kind, dict(data.options), where)
    check_key(config, where)
    return config


def benchmark_config(name: str, section: Benchmark, where: str = "options") -> Any:
    """The benchmark's own options: its module's Config filled from `options`; None where it has none.

    Raises UserError for an option that the module does not have, or that it refuses.
    """
    kind = getattr(plugins.find(plugins.BENCHMARKS, section.benchmark or name), "Config", None)
    if kind is None and section.options:
        raise UserError(f"{where}: benchmark {section.benchmark or name!r} has no options; remove them")
    return kind and structured(kind, dict(section.options), where)


def rewriter_config(data: Data, where: str = "rewriter") -> Any:
    """The endpoint that writes hard positives for this data set; None where none is named."""
    config = structured(Rewriter, dict(data.rewriter), where) if data.rewriter else None
    check_key(config, where)
    return config


def captions_config(data: Data, where: str = "captions") -> Captions | None:
    """The released list that a data set takes its captions from; None where it names none."""
    return _list(Captions, dict(data.captions), where) if data.captions else None


def _list(kind: Any, raw: dict, where: str) -> Any:
    """A list of texts as one may write it: a single column, and columns by number."""
    columns = raw.get("column") or []
    raw["column"] = [str(c) if isinstance(c, int) else c for c in (columns if isinstance(columns, list) else [columns])]
    if isinstance(raw.get("key_column"), int):
        raw["key_column"] = str(raw["key_column"])
    return structured(kind, raw, where)


def texts_config(data: Data, where: str = "texts") -> dict[str, Texts | MemberText]:
    """The texts that stand beside a data set's captions, by kind: lists, or members of the samples' tars.

    Raises UserError for other kinds.
    """
    for kind in data.texts:
        if kind not in TEXT_KINDS:
            raise unknown("kind of texts", kind, TEXT_KINDS, where)
    given = {kind: mapping(data.texts[kind], f"{where}.{kind}") for kind in TEXT_KINDS if kind in data.texts}
    return {kind: _texts(raw, f"{where}.{kind}") for kind, raw in given.items()}


def _texts(raw: dict, where: str) -> Texts | MemberText:
    return structured(MemberText, raw, where) if "member" in raw else _list(Texts, raw, where)


def masked_config(data: Data, where: str = "masked") -> Masked | None:
    """The masked language model of a data set; None where it names none."""
    return structured(Masked, dict(data.masked), where) if data.masked else None


def rewrites_config(data: Data, where: str = "rewrites") -> Released | None:
    """The released hard positives of a data set; None where it names none. Raises UserError beside a rewriter."""
    if data.rewrites and data.rewriter:
        raise UserError(f"{where}: stands beside a rewriter; remove one of them")
    return structured(Released, dict(data.rewrites), where) if data.rewrites else None


def writer_config(data: Data) -> Rewriter | Released | None:
    """What writes hard positives for a data set: an endpoint, or released files; None where nothing does."""
    return rewriter_config(data) or rewrites_config(data)

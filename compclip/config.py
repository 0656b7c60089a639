"""params.yaml onto frozen dataclasses; the cells of the grid; each one's resolved run and its key.

`python -m compclip.config check [key=value ...]`   validate
`python -m compclip.config show CELL`               one cell, resolved
`python -m compclip.config use FILE`                make another grid the current params.yaml
`python -m compclip.config methods --out FOLDER`    one file for each method of the grid, resolved: the `methods` stage
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from omegaconf import MISSING, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from yaml import YAMLError

from compclip import modules, sections
from compclip.data.sample import Data
from compclip.data.scenes.config import World
from compclip.errors import UserError, entry, one_line, unknown
from compclip.files import fingerprint, write_atomic, write_json
from compclip.sections import Backbone, Benchmark, Cell, Evaluate, Grid, Lora, Params, Report, Run, Train, WiseFt

DEFAULT = "params.yaml"
GRIDS = Path("experiments/grids")
KEPT = (f"{GRIDS}/*.yaml", "studies/*/best.yaml")  # a params.yaml that is a copy of one of these holds nobody's edits
PER_DATA = "per_data"  # methods.<name>.per_data.<data>: what holds on this data set alone


SECTIONS: dict[str, Any] = {"grid": Grid, "train": Train, "evaluate": Evaluate, "wise_ft": WiseFt, "report": Report,
                            "scenes": World}
TABLES: dict[str, Any] = {"backbones": Backbone, "data": Data, "benchmarks": Benchmark}
POSITIVE = ("epochs", "batch_size", "lr", "eps", "max_logit_scale", "threads", "log_every_steps",
            "checkpoint_every_steps")
NOT_NEGATIVE = ("max_steps", "lr_start", "lr_end", "warmup_steps", "weight_decay", "grad_clip_norm", "workers", "limit",
                "min_sentences", "micro_batch", "seed")
RANGES = ((POSITIVE, "> 0", lambda v: 0 < v < math.inf), (NOT_NEGATIVE, ">= 0", lambda v: 0 <= v < math.inf),
          (("warmup_fraction", "beta1", "beta2"), ">= 0 and < 1", lambda v: 0 <= v < 1))
NO_SECTIONS = "must be a mapping of sections such as grid and train"
CHOICES = {"trainable": ("all", "text", "image", "none"), "precision": ("float32", "bf16")}


def load(path: str | Path = DEFAULT, overrides: Sequence[str] = (), together: bool = False) -> Params:
    """Read, override (`key=value`), and check every section, and on demand all `together`.

    Raises UserError naming key, value and fix.
    """
    raw = _read(path, overrides)
    try:
        params = _params(raw)
        if together:
            sections.check_together(params)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return params


def _params(raw: dict) -> Params:
    for name in raw:
        if name not in (*SECTIONS, *TABLES, "methods"):
            raise unknown("section", str(name), (*SECTIONS, *TABLES, "methods"))
    sections = {name: _structured(kind, _mapping(raw.get(name), name), name) for name, kind in SECTIONS.items()}
    tables = {name: {k: _structured(kind, _mapping(v, f"{name}.{k}"), f"{name}.{k}")
                     for k, v in _mapping(raw.get(name), name).items()} for name, kind in TABLES.items()}
    params = Params(**sections, **tables, methods=_mapping(raw.get("methods"), "methods"))
    _check(params)
    return params


def cells(params: Params) -> list[Cell]:
    """All cells of the grid, methods outermost."""
    grid = params.grid
    return [Cell(*c) for c in itertools.product(grid.methods, grid.backbones, grid.data, grid.seeds)]


def line_cells(params: Params) -> list[Cell]:
    """The cells of the grid that wise_ft names."""
    return [c for c in cells(params) if c.method in params.wise_ft.methods and c.seed in params.wise_ft.seeds]


def resolve(params: Params, cell: Cell | str) -> Run:
    """A cell's run. Raises UserError for a cell that is not in the grid."""
    known, name = {c.name: c for c in cells(params)}, getattr(cell, "name", cell)
    if name not in known:
        raise unknown("cell", name, known, "grid")
    cell = known[name]
    method, train = method_config(params, cell.method, cell.data)
    return Run(cell, method, train, params.backbones[cell.backbone], params.data[cell.data])


def method_config(params: Params, name: str, data: str = "") -> tuple[Any, Train]:
    """The Config of a method and its training settings on a data set.

    A variant stands over what `per_data` says of that data set, and this over the method's own values.
    """
    values, train = {}, asdict(params.train)
    for layer, where in _layers(params, name, data):
        train |= _mapping(layer.pop("train", None), f"{where}.train")
        values |= layer
    config = modules.find("compclip.methods", name.partition(".")[0]).Config
    return _structured(config, values, where), _structured(Train, train, f"{where}.train")


def _layers(params: Params, name: str, data: str) -> list[tuple[dict, str]]:
    """What is said of a method, the weakest first, and where it is said."""
    base, dot, variant = name.partition(".")
    where = f"methods.{base}"
    own = _mapping(params.methods.get(base), where)
    variants, sets = (_mapping(own.pop(key, None), f"{where}.{key}") for key in ("variants", PER_DATA))
    if dot and variant not in variants:
        raise unknown("variant", variant, variants, f"{where}.variants")
    chosen = [("variants", variants, variant)] if dot else []
    chosen = [(PER_DATA, sets, data)] * (data in sets) + chosen
    named = [(table[key], f"{where}.{kind}.{key}") for kind, table, key in chosen]
    return [(own, where), *((_mapping(raw, place), place) for raw, place in named)]


def captioner_config(data: Data, where: str = "options") -> Any:
    """The captioner's own parameters: its module's Config filled from `options`; None where it has none."""
    kind = getattr(modules.find("compclip.recaption", data.captioner), "Config", None)
    if kind is None and data.options:
        raise UserError(f"{where}: captioner {data.captioner!r} has no options; remove them")
    return kind and _structured(kind, dict(data.options), where)


def rewriter_config(data: Data, where: str = "rewriter") -> Any:
    """The endpoint that writes hard positives for this data set; None where none is named."""
    kind = modules.find("compclip.data", "rewrite").Config
    return _structured(kind, dict(data.rewriter), where) if data.rewriter else None


def write_methods(params: Params, folder: Path) -> None:
    """One JSON file for each method of the grid: its variant applied, its training settings, its module's hash.

    Cells depend on theirs alone, so that an edit of one method or variant leaves the others' cells as they are.
    """
    for name in params.grid.methods:
        base = name.partition(".")[0]
        apart = {data: _resolved(params, name, data) for data in _sets(params, base)}
        code = fingerprint(Path(modules.find("compclip.methods", base).__file__))
        write_json(folder / f"{name}.json",
                   _resolved(params, name) | {"code": code} | ({PER_DATA: apart} if apart else {}))


def _resolved(params: Params, name: str, data: str = "") -> dict[str, dict]:
    method, train = method_config(params, name, data)
    return {"config": asdict(method), "train": asdict(train)}


def _sets(params: Params, base: str) -> dict:
    """What a method says of single data sets."""
    raw = _mapping(params.methods.get(base), f"methods.{base}")
    return _mapping(raw.get(PER_DATA), f"methods.{base}.{PER_DATA}")


def to_yaml(run: Run) -> str:
    """A run fully resolved, as runs/<cell>/config.yaml has it."""
    return OmegaConf.to_yaml(OmegaConf.create(asdict(run)))


def from_yaml(path: str | Path) -> Run:
    """The run that a config.yaml describes."""
    raw = {key: _mapping(value, f"{path}: {key}") for key, value in _read(path, ()).items()}
    cell = _structured(Cell, raw.get("cell", {}), f"{path}: cell")
    config = modules.find("compclip.methods", cell.method.partition(".")[0]).Config
    kinds = {"method": config, "train": Train, "backbone": Backbone, "data": Data}
    return Run(cell, **{name: _structured(kind, raw.get(name, {}), f"{path}: {name}") for name, kind in kinds.items()})


def _read(path: str | Path, overrides: Sequence[str]) -> dict:
    try:
        merged = OmegaConf.load(path)
    except (YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not YAML: {one_line(str(error))}") from error
    except OSError as error:  # OmegaConf raises it, without a number, for a file that holds a single value
        fault = f"{error.strerror}; run from the project's root or give --params FILE" if error.errno else NO_SECTIONS
        raise UserError(f"{path}: {fault}") from error
    if not OmegaConf.is_dict(merged):
        raise UserError(f"{path}: {NO_SECTIONS}")
    for override in overrides:
        merged = _overridden(path, merged, override)
    try:
        return OmegaConf.to_container(merged, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise UserError(f"{path}: {error.full_key}=???: must be given; write a value or remove the line") from error
    except OmegaConfBaseException as error:
        raise UserError(f"{path}: {error.full_key}: {str(error).splitlines()[0]}") from error


def _overridden(path: str | Path, merged: Any, override: str) -> Any:
    if not re.match(r"[^=]+=", override):
        raise UserError(f"{path}: override {override!r}: must be key=value, as train.lr=1e-5")
    try:
        given = OmegaConf.from_dotlist([override])
        OmegaConf.to_container(given, throw_on_missing=True)
        return OmegaConf.merge(merged, given)
    except MissingMandatoryValue as error:  # merging would pass over it
        raise UserError(f"{path}: override {override!r}: ??? is no value; give one") from error
    except (OmegaConfBaseException, YAMLError, ValueError, TypeError) as error:
        raise UserError(f"{path}: override {override!r}: {str(error).splitlines()[0]}") from error


def _mapping(raw: Any, where: str) -> dict:
    """A copy with names as keys; nothing stands for an empty mapping."""
    if raw is not None and not isinstance(raw, dict):
        raise UserError(f"{where}={raw!r}: must be a mapping, as `name: value` below it")
    return {str(key): value for key, value in (raw or {}).items()}


def _structured(kind: Any, raw: dict, where: str) -> Any:
    """`raw` as the dataclass `kind`; unknown keys, wrong types and values name the key, its value, and the fix."""
    if kind is Train and isinstance(raw.get("lora"), dict):
        raw = raw | {"lora": _structured(Lora, raw["lora"], f"{where}.lora")}
    known = [f.name for f in fields(kind)]
    for key in sorted(raw.keys() - set(known)):
        raise unknown("key", key, known, where)
    for f in fields(kind):
        if f.default == MISSING and raw.get(f.name, MISSING) in (None, "", MISSING):
            raise UserError(f"{where}.{f.name}: must be given; add it")
    try:
        made = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), raw))
    except UserError as error:
        raise UserError(str(error) if str(error).startswith(f"{where}.") else f"{where}.{error}") from error
    except (OmegaConfBaseException, TypeError) as error:
        raise _mistyped(kind, raw, where) or UserError(f"{where}: {str(error).splitlines()[0]}") from error
    if kind in (Train, Data, Evaluate, World):
        _check_values(made, where)
    return made


def _mistyped(kind: Any, raw: dict, where: str) -> UserError | None:
    """The error for the first field whose value has the wrong type, found by trying each alone."""
    for f in fields(kind):
        try:
            OmegaConf.merge(OmegaConf.structured(kind), {f.name: raw[f.name]} if f.name in raw else {})
        except (OmegaConfBaseException, TypeError):
            plain = isinstance(f.default, (str, int, float)) and f.default != MISSING
            default = f"; the default is {f.default!r}" if plain else ""
            wanted = f.type if isinstance(f.type, str) else f.type.__name__
            return UserError(f"{where}.{f.name}={raw[f.name]!r}: must be {wanted}{default}")
    return None


def _check(params: Params) -> None:
    for name, raw in params.methods.items():
        _check_method(params, name, _mapping(raw, f"methods.{name}"))
    for name, data in params.data.items():
        modules.find("compclip.data.sources", data.source)
        captioner_config(data, f"data.{name}.options")
        rewriter_config(data, f"data.{name}.rewriter")
    for name, benchmark in params.benchmarks.items():
        modules.find("compclip.benchmarks", benchmark.benchmark or name)
    for name in _distinct(params.evaluate.benchmarks, "evaluate.benchmarks"):
        if name not in params.benchmarks:
            raise unknown("benchmark", name, params.benchmarks, "evaluate.benchmarks")
    _check_grid(params)
    _check_wise_ft(params)
def _check_method(params: Params, name: str, raw: dict) -> None:
    variants = _mapping(raw.get("variants"), f"methods.{name}.variants")
    for method in (name, *(f"{name}.{variant}" for variant in variants)):
        method_config(params, method)
    for data in _sets(params, name):
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
        lacking = [data for data in grid.data if data in params.data and not params.data[data].rewriter]
        if getattr(config, "source", "") == "llm" and lacking:
            raise UserError(f"methods.{method}.source=llm: data.{lacking[0]} names no rewriter; add data.{lacking[0]}"
                            ".rewriter with url and model")
    for name, table in (("backbones", params.backbones), ("data", params.data)):
        for value in getattr(grid, name):
            if value not in table:
                raise unknown(name.rstrip("s"), value, table, f"grid.{name}")
    if not 0 <= min(grid.seeds) <= max(grid.seeds) < 2**32:
        raise UserError(f"grid.seeds={grid.seeds}: seeds must be >= 0 and < 2**32")

    for cell in _distinct([cell.name for cell in cells(params)], "the names of the grid's cells"):
        if not re.fullmatch(r"[\w.+-]+", cell):
            raise UserError(f"cell {cell!r}: cannot name a folder; use letters, digits and _ . + - in the grid's names")


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


def _check_values(values: Any, where: str) -> None:
    given = {f.name: getattr(values, f.name) for f in fields(values)}
    for names, rule, fits in RANGES:
        for name in given.keys() & set(names):
            if not fits(given[name]):
                raise UserError(f"{where}.{name}={given[name]}: must be {rule}")
    for name in given.keys() & CHOICES.keys():
        if given[name] not in CHOICES[name]:
            raise unknown(name, given[name], CHOICES[name], f"{where}.{name}")
    if isinstance(values, Train) and values.batch_size < 2:
        raise UserError(f"{where}.batch_size={values.batch_size}: must be >= 2, a contrast needs two")


def use(source: str | Path, target: str | Path = DEFAULT, force: bool = False) -> None:
    """Make `source` the current parameters after checking it; uncommitted edits of `target` are never overwritten."""
    load(source)
    raw = Path(source).read_bytes()
    if Path(target).exists() and not force and Path(target).read_bytes() != raw and _edited(Path(target)):
        raise UserError(f"{target}: has uncommitted edits; commit it or save it in {GRIDS}, or give --force")
    write_atomic(target, raw)


def _edited(path: Path) -> bool:
    """Whether something would be lost: not as last committed (or unknown to git), and no copy of a kept file."""
    raw, folder = path.read_bytes(), path.resolve().parent
    if any(raw == kept.read_bytes() for pattern in KEPT for kept in folder.glob(pattern)):
        return False
    try:
        done = subprocess.run(["git", "status", "--porcelain", "--ignored", path.name], cwd=folder, capture_output=True)
    except OSError:  # no git on this machine
        return True
    return done.returncode != 0 or bool(done.stdout.strip())


def main(argv: list[str]) -> int:
    """check, show, use and methods."""
    parser = argparse.ArgumentParser(prog="python -m compclip.config", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="validate params.yaml")
    show = commands.add_parser("show", help="print a cell, resolved")
    show.add_argument("cell")
    resolved = commands.add_parser("methods", help="write each method of the grid, resolved")
    resolved.add_argument("--out", type=Path, required=True)
    for command in (check, show, resolved):
        command.add_argument("--params", default=DEFAULT)
        command.add_argument("overrides", nargs="*", metavar="key=value")
    switch = commands.add_parser("use", help="make another grid the current one")
    switch.add_argument("file")
    switch.add_argument("--force", action="store_true", help="overwrite uncommitted edits")
    args = parser.parse_args(argv)
    if args.command == "use":
        use(args.file, force=args.force)
        print(f"{DEFAULT} is now {args.file}")
        return 0
    params = load(args.params, args.overrides, together=args.command != "show")
    if args.command == "show":
        print(to_yaml(resolve(params, args.cell)), end="")
    elif args.command == "methods":
        write_methods(params, args.out)
    else:
        print(f"{args.params}: {len(cells(params))} cells, {len(params.evaluate.benchmarks)} benchmarks: OK")
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

"""params.yaml onto frozen dataclasses; the cells of the grid; each one's resolved run and its key.

`python -m compclip.config check [key=value ...]`   validate
`python -m compclip.config show CELL`               one cell, resolved
`python -m compclip.config use FILE`                make another grid the current params.yaml
"""

from __future__ import annotations

import argparse
import itertools
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from compclip import modules
from compclip.data.scenes.config import World
from compclip.errors import UserError, entry, unknown
from compclip.files import write_atomic

DEFAULT = "params.yaml"

@dataclass(frozen=True)
class Grid:
    """The comparison: every method on every backbone and data set, once for each seed."""

    methods: list[str] = field(default_factory=list)
    backbones: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Train:
    """How a method is trained; `methods.<name>.train` overlays it."""

    epochs: float = 5.0
    max_steps: int = 0  # 0: epochs decide
    batch_size: int = 256
    lr: float = 1e-5
    lr_start: float = 0.0  # where the warm-up begins
    lr_end: float = 0.0
    warmup_steps: int = 50
    warmup_fraction: float = 0.0  # of all steps; replaces warmup_steps where > 0
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-6
    weight_decay: float = 0.1
    grad_clip_norm: float = 1.0  # 0: off
    trainable: str = "all"  # towers: all, text, image, none
    train_logit_scale: bool = True
    max_logit_scale: float = 100.0
    precision: str = "float32"  # or bf16
    threads: int = 1
    log_every_steps: int = 10
    checkpoint_every_steps: int = 50
    workers: int = 0


@dataclass(frozen=True)
class Backbone:
    """An open_clip model by name or config file, and its weights: hub tag, local path, or random ones."""

    model: str = ""
    weights: str = ""
    tokenizer: str = ""


@dataclass(frozen=True)
class Data:
    """A data set: which source reads it, from where, and who captions it."""

    source: str = ""
    path: str = ""
    images: str = ""
    split: str = "train"
    captioner: str = "none"
    limit: int = 0  # 0: all


@dataclass(frozen=True)
class Benchmark:
    """A benchmark's module (default: its own name) and files."""

    benchmark: str = ""
    path: str = ""
    images: str = ""
    split: str = ""


@dataclass(frozen=True)
class Evaluate:
    """What every checkpoint is scored on."""

    benchmarks: list[str] = field(default_factory=list)
    batch_size: int = 256
    threads: int = 2


@dataclass(frozen=True)
class Report:
    """The columns of the comparison (`benchmark/metric`; none: all whole-benchmark metrics) and the bootstrap."""

    columns: list[str] = field(default_factory=list)
    bootstrap_samples: int = 10_000


@dataclass(frozen=True)
class Params:
    """params.yaml as a whole; `methods` stays raw until a cell asks for one."""

    grid: Grid
    train: Train
    methods: dict[str, dict]
    backbones: dict[str, Backbone]
    data: dict[str, Data]
    benchmarks: dict[str, Benchmark]
    evaluate: Evaluate
    report: Report
    scenes: World


@dataclass(frozen=True)
class Cell:
    """One place of the grid; its name is also its folder below runs/ and its DVC stage."""

    method: str
    backbone: str
    data: str
    seed: int

    @property
    def name(self) -> str:
        """method-backbone-data-seed."""
        return f"{self.method}-{self.backbone}-{self.data}-{self.seed}"


@dataclass(frozen=True)
class Run:
    """A cell with everything resolved: what training reads."""

    cell: Cell
    method: Any
    train: Train
    backbone: Backbone
    data: Data

    @property
    def method_name(self) -> str:
        """The method's module; a cell's method may name a variant behind a dot."""
        return self.cell.method.partition(".")[0]


SECTIONS: dict[str, Any] = {"grid": Grid, "train": Train, "evaluate": Evaluate, "report": Report, "scenes": World}
TABLES: dict[str, Any] = {"backbones": Backbone, "data": Data, "benchmarks": Benchmark}
POSITIVE = ("epochs", "batch_size", "lr", "eps", "max_logit_scale", "threads", "log_every_steps",
            "checkpoint_every_steps")
NOT_NEGATIVE = ("max_steps", "lr_start", "lr_end", "warmup_steps", "warmup_fraction", "weight_decay", "grad_clip_norm",
                "workers", "beta1", "beta2")
CHOICES = {"trainable": ("all", "text", "image", "none"), "precision": ("float32", "bf16")}


def load(path: str | Path = DEFAULT, overrides: Sequence[str] = ()) -> Params:
    """Read, override (`key=value`), and check everything. Raises UserError naming key, value and fix."""
    raw = _read(path, overrides)
    for name in raw:
        if name not in (*SECTIONS, *TABLES, "methods"):
            raise unknown("section", str(name), (*SECTIONS, *TABLES, "methods"), str(path))
    sections = {name: _structured(kind, raw.get(name) or {}, name) for name, kind in SECTIONS.items()}
    tables = {name: {k: _structured(kind, v or {}, f"{name}.{k}") for k, v in (raw.get(name) or {}).items()}
              for name, kind in TABLES.items()}
    params = Params(**sections, **tables, methods=raw.get("methods") or {})
    _check(params)
    return params


def cells(params: Params) -> list[Cell]:
    """All cells of the grid, methods outermost."""
    grid = params.grid
    return [Cell(*c) for c in itertools.product(grid.methods, grid.backbones, grid.data, grid.seeds)]


def resolve(params: Params, cell: Cell | str) -> Run:
    """A cell's run. Raises UserError for a cell that is not in the grid."""
    known = {c.name: c for c in cells(params)}
    name = cell if isinstance(cell, str) else cell.name
    if name not in known:
        raise unknown("cell", name, known, "grid")
    cell = known[name]
    method, train = method_config(params, cell.method)
    return Run(cell, method, train, params.backbones[cell.backbone], params.data[cell.data])


def method_config(params: Params, name: str) -> tuple[Any, Train]:
    """The Config of a method, its variant applied, and its training settings."""
    base, _, variant = name.partition(".")
    raw = dict(params.methods.get(base) or {})
    variants = raw.pop("variants", None) or {}
    if variant and variant not in variants:
        raise unknown("variant", variant, variants, f"methods.{base}.variants")
    overlay = dict(variants.get(variant) or {}) if variant else {}
    train = asdict(params.train) | dict(raw.pop("train", None) or {}) | dict(overlay.pop("train", None) or {})
    where = f"methods.{name}"
    made = _structured(Train, train, f"{where}.train")
    _check_train(made, f"{where}.train")
    return _structured(modules.find("compclip.methods", base).Config, raw | overlay, where), made


def to_dict(run: Run) -> dict:
    """A run as plain values."""
    return {"cell": asdict(run.cell), "method": asdict(run.method), "train": asdict(run.train),
            "backbone": asdict(run.backbone), "data": asdict(run.data)}


def to_yaml(run: Run) -> str:
    """A run fully resolved, as runs/<cell>/config.yaml has it."""
    return OmegaConf.to_yaml(OmegaConf.create(to_dict(run)))


def from_yaml(path: str | Path) -> Run:
    """The run that a config.yaml describes."""
    raw = _read(path, ())
    cell = Cell(**raw["cell"])
    config = modules.find("compclip.methods", cell.method.partition(".")[0]).Config
    return Run(cell, _structured(config, raw["method"], "method"), _structured(Train, raw["train"], "train"),
               _structured(Backbone, raw["backbone"], "backbone"), _structured(Data, raw["data"], "data"))


# --- reading --------------------------------------------------------------------------------------------------


def _read(path: str | Path, overrides: Sequence[str]) -> dict:
    try:
        loaded = OmegaConf.load(path)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file; run from the project's root or give --params FILE") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not YAML: {error}") from error
    if not OmegaConf.is_dict(loaded):
        raise UserError(f"{path}: must be a mapping of sections such as grid and train")
    for override in overrides:
        key, equals, _ = override.partition("=")
        if not equals or not key:
            raise UserError(f"override {override!r}: must be key=value, as train.lr=1e-5")
    try:
        merged = OmegaConf.merge(loaded, OmegaConf.from_dotlist(list(overrides)))
        return OmegaConf.to_container(merged, resolve=True)
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(f"{path}: {str(error).splitlines()[0]}") from error


def _structured(kind: Any, raw: Any, where: str) -> Any:
    """`raw` as the dataclass `kind`; unknown keys and wrong types name the key, its value, and the fix."""
    if not isinstance(raw, dict):
        raise UserError(f"{where}={raw!r}: must be a mapping of {', '.join(f.name for f in fields(kind))}")
    known = [f.name for f in fields(kind)]
    for key in raw:
        if key not in known:
            raise unknown("key", str(key), known, where)
    for f in fields(kind):
        _typed(kind, f, raw, where)
    try:
        return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), raw))
    except UserError as error:
        raise UserError(f"{where}.{error}") from error
    except OmegaConfBaseException as error:
        raise UserError(f"{where}: {str(error).splitlines()[0]}") from error


def _typed(kind: Any, f: Any, raw: dict, where: str) -> None:
    if f.name not in raw:
        return
    single = {f.name: raw[f.name]}
    try:
        OmegaConf.merge(OmegaConf.structured(kind), single)
    except OmegaConfBaseException as error:
        default = "" if f.default is MISSING else f"; the default is {f.default!r}"
        wanted = f.type if isinstance(f.type, str) else f.type.__name__
        raise UserError(f"{where}.{f.name}={raw[f.name]!r}: must be {wanted}{default}") from error


# --- checks ---------------------------------------------------------------------------------------------------


def _check(params: Params) -> None:
    _check_train(params.train, "train")
    _check_grid(params)
    for name in params.methods:
        method_config(params, name)
    for name, data in params.data.items():
        _need(data, ("source", "path", "images"), f"data.{name}")
        modules.find("compclip.data.sources", data.source)
        modules.find("compclip.recaption", data.captioner)
    for name, backbone in params.backbones.items():
        _need(backbone, ("model",), f"backbones.{name}")
    for name, benchmark in params.benchmarks.items():
        _need(benchmark, ("path",), f"benchmarks.{name}")
        modules.find("compclip.benchmarks", benchmark.benchmark or name)
    for name in params.evaluate.benchmarks:
        if name not in params.benchmarks:
            raise unknown("benchmark", name, params.benchmarks, "evaluate.benchmarks")


def _check_grid(params: Params) -> None:
    grid = params.grid
    for name in ("methods", "backbones", "data", "seeds"):
        values = getattr(grid, name)
        if not values:
            raise UserError(f"grid.{name}={values}: must name at least one; set it in params.yaml")
        if len(set(values)) < len(values):
            raise UserError(f"grid.{name}={values}: a value stands twice; remove one")
    for method in grid.methods:
        base = method.partition(".")[0]
        if base not in params.methods:
            raise unknown("method", base, params.methods, "grid.methods")
        method_config(params, method)
    for name, table in (("backbones", params.backbones), ("data", params.data)):
        for value in getattr(grid, name):
            if value not in table:
                raise unknown(name.rstrip("s"), value, table, f"grid.{name}")
    if min(grid.seeds) < 0:
        raise UserError(f"grid.seeds={grid.seeds}: seeds must be >= 0")


def _check_train(train: Train, where: str) -> None:
    for names, fits, rule in ((POSITIVE, lambda v: 0 < v < math.inf, "> 0"),
                              (NOT_NEGATIVE, lambda v: 0 <= v < math.inf, ">= 0")):
        for name in names:
            if not fits(getattr(train, name)):
                raise UserError(f"{where}.{name}={getattr(train, name)}: must be {rule}")
    for name in ("beta1", "beta2", "warmup_fraction"):
        if getattr(train, name) >= 1:
            raise UserError(f"{where}.{name}={getattr(train, name)}: must be < 1")
    for name, known in CHOICES.items():
        if getattr(train, name) not in known:
            raise unknown(name, getattr(train, name), known, f"{where}.{name}")
    if train.batch_size < 2:
        raise UserError(f"{where}.batch_size={train.batch_size}: must be >= 2, a contrast needs two")


def _need(values: Any, names: Sequence[str], where: str) -> None:
    for name in names:
        if not getattr(values, name):
            raise UserError(f"{where}.{name}: must be given; set it in params.yaml")


# --- commands -------------------------------------------------------------------------------------------------


def use(source: str | Path, target: str | Path = DEFAULT, force: bool = False) -> None:
    """Make `source` the current parameters after checking it; uncommitted edits of `target` are never overwritten."""
    load(source)
    if Path(target).exists() and not force and _edited(Path(target)):
        raise UserError(f"{target}: has uncommitted edits; commit or copy them first, or give --force")
    write_atomic(target, Path(source).read_bytes())


def _edited(path: Path) -> bool:
    """Whether a file differs from the last commit; one that git does not know counts as edited."""
    command = ["git", "status", "--porcelain", "--", path.name]
    done = subprocess.run(command, cwd=path.resolve().parent, capture_output=True, text=True)
    return done.returncode != 0 or bool(done.stdout.strip())


def main(argv: list[str]) -> int:
    """check, show and use."""
    parser = argparse.ArgumentParser(prog="python -m compclip.config", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="validate params.yaml")
    show = commands.add_parser("show", help="print a cell, resolved")
    show.add_argument("cell")
    for command in (check, show):
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
    params = load(args.params, args.overrides)
    if args.command == "show":
        print(to_yaml(resolve(params, args.cell)), end="")
    else:
        print(f"{args.params}: {len(cells(params))} cells, {len(params.evaluate.benchmarks)} benchmarks: OK")
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))

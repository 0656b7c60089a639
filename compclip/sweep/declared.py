"""Studies: what experiments/studies/<name>.yaml declares, and from a trial's values to its run and back to its scores.

    method: fsc_clip            # or name.variant; values go into its section of params.yaml
    backbone: scenes
    data: scenes
    seed: 0                     # of the runs and of the sampler
    overrides: [train.epochs=2] # on params.yaml, for every trial
    space:
      gamma: {float: [0, 5]}
      train.lr: {float: [1e-5, 1e-3], log: true}
      positives: {int: [2, 4]}
      attention: {categorical: [minmax, softmax]}
      lambda_local: {float: [0, 1], when: {attention: [minmax]}}   # drawn only then; else as in params.yaml
    paper: [{gamma: 2.0}]       # the first trials
    sampler: tpe                # a file of compclip/sweep/samplers: tpe, tpe_joint (conditional ones and any number of
                                # objectives together as well), random, nsga2 …
    startup_trials: 5           # drawn at random before the sampler learns (nsga2: its population)
    pruner: none                # or median, of one objective; or dominated, of any number (compclip/sweep/pruning.py)
    dominated_share: 0.5        # of the other trials at a rung, that must beat a trial for `dominated` to stop it
    rungs: [0.25, 0.5]          # where a pruner looks, as shares of the run's steps
    objectives: [{column: sugarcrepe_pp/swap_itt, direction: maximize}]   # or a mean of the report: summary/Comp …
    trials: 12
    params: params.yaml         # what the trials start from, where the command names no other

A study selects on the benchmark that it reports: its best value is optimistic. Choose on one benchmark (or split) and
report another, or train the best values again with other seeds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from compclip.base import plugins, yaml_text
from compclip.base.errors import UserError, unknown
from compclip.base.names import Name
from compclip.config import grid, read
from compclip.config.cell import PRETRAINED, Cell
from compclip.config.sections import Params, Run
from compclip.config.structured import SEEDS
from compclip.report.tables import SUMMARIES, SUMMARY

FOLDER = Path("experiments/studies")
PRUNERS = ("none", "median", "dominated")
DIRECTIONS = ("maximize", "minimize")
KINDS = ("float", "int", "categorical")
Value = float | int | str | bool


@dataclass(frozen=True)
class Dimension:
    """One searched value: numbers in [low, high] or one of `choices`; drawn only if all of `when` holds."""

    name: str
    kind: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[Value, ...] = ()
    when: Mapping[str, tuple[Value, ...]] | None = None

    def active(self, values: Mapping[str, Value]) -> bool:
        """Whether it is drawn, given the values drawn before it."""
        return all(values.get(name) in wanted for name, wanted in (self.when or {}).items())

    def holds(self, value: Value) -> bool:
        """Whether a value lies in it."""
        if self.kind == "categorical":
            return any(value == c and isinstance(value, bool) == isinstance(c, bool) for c in self.choices)
        whole = isinstance(value, int) if self.kind == "int" else isinstance(value, (int, float))
        return whole and not isinstance(value, bool) and self.low <= value <= self.high


@dataclass(frozen=True)
class Objective:
    """A column of the report, `benchmark/metric`, and which way is better."""

    column: str
    direction: str = "maximize"

    @property
    def benchmark(self) -> Name:
        """The part before the first stroke."""
        return Name(self.column.partition("/")[0], "benchmark")

    @property
    def sign(self) -> int:
        """1 where more is better, else -1."""
        return 1 if self.direction == "maximize" else -1


@dataclass(frozen=True)
class Study:
    """A declared study; see the top of this file."""

    name: Name
    method: Name
    backbone: Name
    data: Name
    space: tuple[Dimension, ...]
    objectives: tuple[Objective, ...]
    trials: int
    seed: int = 0
    overrides: tuple[str, ...] = ()
    paper: tuple[Mapping[str, Value], ...] = ()
    sampler: str = "tpe"
    startup_trials: int = 5
    pruner: str = "none"
    rungs: tuple[float, ...] = (0.25, 0.5)
    dominated_share: float = 0.5
    params: str = read.DEFAULT

    def identity(self) -> dict:
        """What must not change between two starts of a study: everything but the number of trials."""
        return json.loads(json.dumps({k: v for k, v in asdict(self).items() if k != "trials"}))


def load(name: str, folder: Path = FOLDER) -> Study:
    """The study of that name. Raises UserError naming file, key, value and fix."""
    path = folder / f"{Name(name, '--study')}.yaml"
    if not path.is_file():
        raise unknown("study", name, [p.stem for p in folder.glob("*.yaml")], str(folder))
    raw = yaml_text.plain(
        yaml_text.read(path, "must be a mapping with method, space, objectives and trials"), str(path)
    )
    try:
        return parse(name, raw)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def parse(name: str, raw: Any) -> Study:
    """A study from its plain values, checked."""
    known = [f.name for f in fields(Study) if f.name != "name"]
    raw = _mapping(raw, "the file", known)
    for key in ("method", "backbone", "data", "space", "objectives", "trials"):
        if not raw.get(key):
            raise UserError(f"{key}: must be given; add it")
    names = {key: Name(raw[key], key) for key in ("method", "backbone", "data")}
    raw["space"] = _space(raw["space"])
    raw["objectives"] = tuple(_objective(o) for o in _sequence(raw["objectives"], "objectives"))
    raw["paper"] = tuple(_paper(p, raw["space"]) for p in _sequence(raw.get("paper") or [], "paper"))
    raw["overrides"] = tuple(_text(o, "overrides") for o in _sequence(raw.get("overrides") or [], "overrides"))
    raw["rungs"] = tuple(_number(r, "rungs") for r in _sequence(raw.get("rungs", list(Study.rungs)), "rungs"))
    raw["dominated_share"] = _number(raw.get("dominated_share", Study.dominated_share), "dominated_share")
    raw["params"] = _text(raw.get("params", Study.params), "params")
    study = Study(Name(name, "study"), **raw | names)
    _check(study)
    return study


def _check(study: Study) -> None:
    sampler = plugins.find(plugins.SAMPLERS, str(study.sampler))
    if study.pruner not in PRUNERS:
        raise unknown("pruner", str(study.pruner), PRUNERS)
    for key, low in (("trials", 1), ("seed", 0), ("startup_trials", 1)):
        value = getattr(study, key)
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise UserError(f"{key}={value!r}: must be a whole number >= {low}")
    if study.seed >= SEEDS:
        raise UserError(f"seed={study.seed}: must be < 2**32")
    if study.startup_trials < (least := getattr(sampler, "LEAST_STARTUP", 1)):
        raise UserError(f"startup_trials={study.startup_trials}: must be >= {least} with the sampler {study.sampler}")
    if study.pruner == "median" and len(study.objectives) > 1:
        raise UserError(f"pruner=median: is of one objective, not of {len(study.objectives)}; set dominated or none")
    if not 0 < study.dominated_share <= 1:
        raise UserError(f"dominated_share={study.dominated_share}: must be > 0 and <= 1")
    if sorted(set(study.rungs)) != list(study.rungs) or not all(0 < r < 1 for r in study.rungs):
        raise UserError(f"rungs={list(study.rungs)}: must rise and lie between 0 and 1")
    columns = [o.column for o in study.objectives]
    if len(columns) != len(set(columns)):
        raise UserError(f"objectives: {columns} names a column twice; remove one")


def _space(raw: Any) -> tuple[Dimension, ...]:
    found: dict[str, Dimension] = {}
    for name, value in _mapping(raw, "space").items():
        found[name] = _dimension(name, _mapping(value, f"space.{name}", (*KINDS, "log", "when")), found)
    return tuple(found.values())


def _dimension(name: str, raw: dict, before: Mapping[str, Dimension]) -> Dimension:
    where, kinds = f"space.{name}", [k for k in KINDS if k in raw]
    if len(kinds) != 1:
        raise UserError(f"{where}: must have one of {', '.join(KINDS)}; as {{float: [0, 1]}}")
    values, log, when = _sequence(raw[kinds[0]], where), raw.get("log", False), _when(raw.get("when"), where, before)
    if not isinstance(log, bool):
        raise UserError(f"{where}: log={log!r}: must be true or false")
    if kinds[0] == "categorical":
        if not all(isinstance(v, (str, bool)) or is_number(v) for v in values):
            raise UserError(f"{where}={values}: must be texts, numbers, true or false")
        if len(values) < 2 or len(set(map(repr, values))) < len(values) or log:
            raise UserError(f"{where}={values}: must be two or more different choices, without log")
        return Dimension(name, "categorical", choices=tuple(values), when=when)
    if len(values) != 2 or not all(map(is_number, values)):
        raise UserError(f"{where}={values}: must be two finite numbers, as [0, 1]")
    if not values[0] < values[1] or (log and values[0] <= 0):
        raise UserError(f"{where}={values}: must rise{' and begin above 0 for log' * bool(log)}")
    if kinds[0] == "int" and not all(isinstance(v, int) for v in values):
        raise UserError(f"{where}={values}: must be whole numbers")
    return Dimension(name, kinds[0], values[0], values[1], log, when=when)


def _when(raw: Any, where: str, before: Mapping[str, Dimension]) -> dict[str, tuple[Value, ...]] | None:
    """Conditions on dimensions that stand earlier."""
    found = {}
    for parent, wanted in _mapping(raw or {}, f"{where}.when").items():
        if parent not in before:
            raise unknown("dimension", parent, before, f"{where}.when (must stand before it)")
        found[parent] = tuple(_sequence(wanted, f"{where}.when.{parent}"))
        for value in found[parent]:
            if not before[parent].holds(value):
                raise UserError(f"{where}.when.{parent}={value!r}: is not in the space of {parent}")
    return found or None


def _objective(raw: Any) -> Objective:
    raw = _mapping({"column": raw} if isinstance(raw, str) else raw, "objectives", ("column", "direction"))
    found = Objective(str(raw.get("column", "")), str(raw.get("direction", "maximize")))
    benchmark, stroke, metric = found.column.partition("/")
    if not (benchmark and stroke and metric):
        raise UserError(f"objectives: column={found.column!r}: must be benchmark/metric, as sugarcrepe/swap")
    if found.direction not in DIRECTIONS:
        raise unknown("direction", found.direction, DIRECTIONS, f"objectives: {found.column}")
    return found


def _paper(raw: Any, space: tuple[Dimension, ...]) -> dict[str, Value]:
    """One of the paper's settings: a value for each dimension that is drawn, inside the space."""
    raw = _mapping(raw, "paper", [d.name for d in space])
    found: dict[str, Value] = {}
    for d in space:
        if d.active(found) != (d.name in raw):
            raise UserError(f"paper={raw}: {d.name} {'is missing' if d.active(found) else 'is not drawn then'}")
        if d.name not in raw:
            continue
        if not d.holds(raw[d.name]):
            raise UserError(f"paper: {d.name}={raw[d.name]!r}: outside its space; widen the space")
        found[d.name] = float(raw[d.name]) if d.kind == "float" else raw[d.name]
    return found


def _mapping(raw: Any, where: str, known: Any = None) -> dict:
    if not isinstance(raw, dict):
        raise UserError(f"{where}={raw!r}: must be a mapping, as `name: value` below it")
    for key in raw:
        if known is not None and key not in known:
            raise unknown("key", str(key), known, where)
    return {str(key): value for key, value in raw.items()}


def is_number(value: Any) -> bool:
    """A number that can be computed with."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max  # false of nan


def _number(value: Any, where: str) -> float:
    if not is_number(value):
        raise UserError(f"{where}: {value!r} is no finite number; write one")
    return float(value)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise UserError(f"{where}: {value!r} is no text; write {'a path' if where == 'params' else 'key=value'}")
    return value


def _sequence(raw: Any, where: str) -> list:
    if not isinstance(raw, list):
        raise UserError(f"{where}={raw!r}: must be a list, as [a, b]")
    return raw


def overrides(study: Study, values: Mapping[str, Value], methods: Mapping[str, Any]) -> list[str]:
    """A trial as `key=value` on params.yaml: the study's own, then the values in the method's section.

    `methods` is params.yaml's: where a method has values for the study's data alone, the trial's go there, since they
    would stand over its own otherwise.
    """
    base, dot, variant = study.method.partition(".")
    section = f"methods.{base}" + (f".variants.{variant}" if dot else "")
    if not dot and study.data in ((methods.get(base) or {}).get(grid.PER_DATA) or {}):
        section += f".{grid.PER_DATA}.{study.data}"
    return [*study.overrides, *(f"{section}.{name}={json.dumps(value)}" for name, value in values.items())]


def run(study: Study, params: Params, method: str = "", source: str = "the grid") -> Run:
    """The run that `params` (a trial's overrides applied) describes; `method`: another one than the study's.

    Raises UserError where the file `source` that `params` are from has no section for a name of the study.
    """
    cell = Cell(Name(method or study.method, "method"), study.backbone, study.data, study.seed)
    base = cell.method.partition(".")[0]
    fix = f"{source} has no such section: give a grid that has it (--params FILE), or write it there"
    if base not in (*params.methods, PRETRAINED) and base in plugins.names(plugins.METHODS):
        raise UserError(f"study {study.name}: methods.{base}: {fix}")
    for kind, name, table in (
        ("method", base, (*params.methods, PRETRAINED)),
        ("backbone", cell.backbone, params.backbones),
        ("data", cell.data, params.data),
    ):
        if name not in table:
            raise UserError(f"{unknown(kind, name, table, f'study {study.name}')}; {fix}")
    made, train = grid.method_config(params, cell.method, cell.data)
    return Run(cell, made, train, params.backbones[cell.backbone], params.data[cell.data])


def corner(study: Study) -> dict[str, Value]:
    """Values that are the same whatever params.yaml has in the searched places: the paper's, or the lowest ones."""
    values: dict[str, Value] = dict(study.paper[0]) if study.paper else {}
    for d in study.space:
        if d.name not in values and d.active(values):
            values[d.name] = d.choices[0] if d.choices else d.low
    return values


def check(study: Study, params: Params, source: str = "the grid") -> None:
    """Objectives are evaluated or means of the report, dimensions are parameters of the method. Raises UserError."""
    for objective in study.objectives:
        kind, metric = objective.benchmark, objective.column.partition("/")[2]
        where = f"study {study.name}: {objective.column}"
        if kind == SUMMARY and metric not in SUMMARIES:
            raise unknown("summary", metric, SUMMARIES, where)
        if kind not in (SUMMARY, *params.evaluate.benchmarks):
            raise unknown("benchmark", kind, params.evaluate.benchmarks, f"{where}: not among evaluate.benchmarks")
    base = run(study, params, source=source)
    known = [f.name for f in fields(base.method)] + [f"train.{f.name}" for f in fields(base.train)]
    for dimension in study.space:
        if dimension.name not in known:
            raise unknown("parameter", dimension.name, known, f"study {study.name}: space")

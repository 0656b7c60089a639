"""Read the grid's cells from their run directories: configs, loss curves, environments and results.

runs/<cell>/{config.yaml, metrics.jsonl, environment.json, results/<benchmark>.json}; the pretrained model
needs only its results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from compclip.base.errors import UserError
from compclip.base.files import read_json, read_text

PRETRAINED = "pretrained"
TRAINED_FILES = ("config.yaml", "metrics.jsonl", "environment.json")


class CellLike(Protocol):
    """What the report needs to know of a cell of the grid."""

    method: str
    backbone: str
    data: str
    seed: int
    name: str


@dataclass(frozen=True)
class Items:
    """Per-item outcomes of one metric, `values` a float64 vector in the order of `ids`."""

    ids: tuple[str, ...]
    values: np.ndarray


@dataclass(frozen=True)
class Result:
    """One results/<benchmark>.json: `means` names the metrics that are plain means of others."""

    benchmark: str
    module: str
    metrics: dict[str, float]
    counts: dict[str, int] = field(default_factory=dict)
    items: dict[str, Items] = field(default_factory=dict)
    means: dict[str, list[str]] = field(default_factory=dict)
    fingerprint: str = ""
    seconds: float = 0.0
    tokenizer: str = ""  # the stand-in that read the texts; none: the model's own


@dataclass(frozen=True)
class Run:
    """One cell's files, parsed. `curve` holds the lines of metrics.jsonl."""

    cell: CellLike
    config: dict[str, Any]
    curve: list[dict[str, Any]]
    environment: dict[str, Any]
    results: dict[str, Result]


@dataclass(frozen=True)
class Missing:
    """A cell, or one result of a cell, that the grid asks for and the run directories do not hold."""

    cell: str
    reason: str


def collect(
    cells: Iterable[CellLike], benchmarks: Iterable[str], runs: Path, partial: bool = False
) -> tuple[list[Run], list[Missing]]:
    """Every cell's run, in the order of `cells`, and what is missing.

    Raises UserError naming the missing cells and results unless `partial`.
    """
    benchmarks, found, missing = list(benchmarks), [], []
    for cell in cells:
        run, lacks = read_cell(cell, benchmarks, runs / cell.name)
        missing += lacks
        if run is not None:
            found.append(run)
    if missing and not partial:
        listed = "; ".join(f"{m.cell}: {m.reason}" for m in missing)
        raise UserError(f"{runs}: {len(missing)} missing: {listed}; run `dvc repro`, or give --partial")
    if not found:
        raise UserError(f"{runs}: holds no cell of the grid; run `dvc repro` or give --runs")
    return found, missing


def read_cell(cell: CellLike, benchmarks: list[str], path: Path) -> tuple[Run | None, list[Missing]]:
    """One cell's run (None where nothing of it can be shown) and what it lacks, with the reason."""
    if not path.is_dir():
        return None, [Missing(cell.name, "no run directory")]
    lacks = [Missing(cell.name, f"no {name}") for name in _expected(cell) if not (path / name).is_file()]
    results = {}
    for name in benchmarks:
        try:
            results[name] = read_result(path / "results" / f"{name}.json")
        except UserError as error:
            lacks.append(Missing(cell.name, str(error) if _exists(path, name) else f"no results/{name}.json"))
    try:
        run = Run(cell, read_config(path), read_curve(path), read_environment(path), results)
    except UserError as error:
        return None, [*lacks, Missing(cell.name, str(error))]
    return (run if results else None), lacks


def _expected(cell: CellLike) -> tuple[str, ...]:
    return () if cell.method == PRETRAINED else TRAINED_FILES


def _exists(path: Path, benchmark: str) -> bool:
    return (path / "results" / f"{benchmark}.json").is_file()


def read_config(path: Path) -> dict[str, Any]:
    """The resolved config.yaml of a run directory as plain values; empty where there is none."""
    file = path / "config.yaml"
    if not file.is_file():
        return {}
    try:
        config = OmegaConf.to_container(OmegaConf.create(read_text(file)))
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(f"{file}: not a configuration: {error}; remove the run and train it again") from error
    if not isinstance(config, dict):
        raise UserError(f"{file}: expected a mapping; remove the run and train it again")
    return config


def read_curve(path: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl in order; empty where there is no file."""
    file = path / "metrics.jsonl"
    if not file.is_file():
        return []
    lines = read_text(file).splitlines()
    return [_line(file, number, text) for number, text in enumerate(lines, 1) if text.strip()]


def _line(file: Path, number: int, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{file}: not JSON at line {number}: {error.msg}; train the run again") from error
    if not isinstance(value, dict) or "step" not in value:
        raise UserError(f"{file}: line {number} has no 'step'; train the run again")
    return value


def read_environment(path: Path) -> dict[str, Any]:
    """environment.json of a run directory; empty where there is none."""
    file = path / "environment.json"
    return dict(read_json(file)) if file.is_file() else {}


def read_result(path: Path) -> Result:
    """One results file. Raises UserError where a field is missing or items and metric disagree."""
    raw = read_json(path)
    try:
        items = {name: _items(value) for name, value in raw.get("items", {}).items()}
        result = Result(
            raw["benchmark"], raw.get("module", raw["benchmark"]), dict(raw["metrics"]), dict(raw.get("counts", {})),
            items, dict(raw.get("means", {})), raw.get("fingerprint", ""), float(raw.get("seconds", 0.0)),
            raw.get("checkpoint", {}).get("tokenizer", ""),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: not a results file ({error!r}); evaluate the run again") from error
    _check(path, result)
    return result


def _items(raw: dict[str, Any]) -> Items:
    ids, values = tuple(map(str, raw["ids"])), np.asarray(raw["outcomes"], dtype=np.float64)
    if len(ids) != len(values) or len(set(ids)) != len(ids):
        raise ValueError(f"{len(ids)} ids ({len(set(ids))} different) for {len(values)} outcomes")
    return Items(ids, values)


def _check(path: Path, result: Result) -> None:
    """A metric that its own items or members do not reproduce would put a wrong number beside a right interval."""
    for name, items in result.items.items():
        if name in result.metrics and len(items.values):
            _agree(path, name, result.metrics[name], float(items.values.mean()))
    for name, members in result.means.items():
        if lacking := [m for m in members if m not in result.metrics]:
            raise UserError(f"{path}: {name} is a mean of {lacking[0]!r}, which is no metric; evaluate the run again")
        _agree(path, name, result.metrics[name], float(np.mean([result.metrics[m] for m in members])))


def _agree(path: Path, name: str, stated: float, computed: float) -> None:
    if stated is None or not np.isclose(stated, computed, rtol=0, atol=1e-6, equal_nan=True):
        raise UserError(f"{path}: {name}={stated} but its items give {computed:.6f}; evaluate the run again")

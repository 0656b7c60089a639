"""A finished run's files, parsed: its configuration, loss curve, environment, and the results of each benchmark.

Every file is checked as it is read, so that a number without its items, or items that contradict it, goes no further.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base import json_text, yaml_text
from compclip.base.errors import UserError
from compclip.base.files import read_json, read_text
from compclip.config.grid import PRETRAINED, Cell, parse_cell
from compclip.runs import run_folder
from compclip.runs.item_outcomes import KINDS, Items
from compclip.runs.run_folder import Trained

DECLARED = ("kind", "lower", "scores", "headline")  # what a benchmark says of itself
SECTION = re.compile(r"^(?=[a-z])", re.MULTILINE)  # where a section of config.yaml begins
SECTIONS = 1024  # sections kept in memory
LATEST_S = 1e11  # since the epoch: three thousand years
# What others compute with of environment.json; the rest is shown as it stands.
NUMBERS = ("seconds", "device_seconds", "processes", "peak_memory_mib", "trained_parameters", "parameters")
MAPPINGS = ("packages", "dropped")
MOST_UNITS = 2**31
SHARES = ("view_shares",)  # of samples, by text or picture that the method asked for (train/view_shares.py)
LISTS = 1024  # lists of ids kept in memory: every run has those of the same benchmarks


@dataclass(frozen=True)
class Result:
    """One benchmark's results: `means` names the metrics that are plain means of others.

    `lower` are the metrics of which less is better, `scores` those that are cosines and no share of items. The mean of
    `headline` stands for the benchmark; it is empty where no metric does. `coverage` has for each measured metric how
    many records were scored, and how many there are.
    """

    benchmark: str
    module: str
    kind: str
    metrics: dict[str, float]
    lower: frozenset[str] = frozenset()
    scores: frozenset[str] = frozenset()
    counts: dict[str, int] = field(default_factory=dict)
    items: dict[str, Items] = field(default_factory=dict)
    means: dict[str, list[str]] = field(default_factory=dict)
    fingerprint: str = ""
    seconds: float = 0.0
    coverage: dict[str, tuple[int, int]] = field(default_factory=dict)
    headline: tuple[str, ...] = ()
    tokenizer: str = ""  # the stand-in that read the texts; none: the model's own
    has_units: bool = True  # whether the file says which items show one picture; those of earlier versions do not


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """One cell's files; `curve` holds the lines of metrics.jsonl, `results` a result for each benchmark's name.

    A run equals itself alone, so that what is computed from it can be remembered.
    """

    trained: Trained
    results_folder: Path
    cell: Cell
    config: dict[str, Any]
    curve: list[dict[str, Any]]
    environment: dict[str, Any]
    results: dict[str, Result]

    def number(self, benchmark: str, metric: str) -> float | None:
        """A metric's value; None where there is no such result, or not a single item."""
        result = self.results.get(benchmark)
        value = result.metrics.get(metric) if result else None
        return None if value is None or value != value else value  # NaN: no item

    @property
    def identity(self) -> str:
        """Tell the checkpoint from others: the same under two seeds where neither trained it.

        The backbone's name for the pretrained model; else the fingerprint of the weights, the run key, or the cell.
        """
        if self.cell.method == PRETRAINED:
            return self.cell.backbone
        facts = self.environment
        return str(facts.get("weights_fingerprint") or facts.get("run_key") or self.cell.name)

    @property
    def end(self) -> float:
        """Seconds since the epoch: the last logged step, or when the files were written."""
        last = self.curve[-1].get("time") if self.curve else None
        return self.trained.config.stat().st_mtime if last is None else last

    @property
    def start(self) -> float:
        """When it began, in seconds since the epoch."""
        return self.end - float(self.environment.get("seconds") or 0.0)

    @property
    def checkpoint(self) -> Path | None:
        """The checkpoint's folder; None where it holds no weights."""
        return self.trained.checkpoint if self.trained.weights.is_file() else None


def read_finished_run(trained: Trained, results_folder: Path) -> FinishedRun:
    """Read one run with all results of its folder. Raises UserError where its configuration names no cell."""
    config = read_config(trained)
    cell = parse_cell(config.get("cell"), f"{trained.config}: cell")
    results = {result.benchmark: result for result in map(read_result, run_folder.result_paths(results_folder))}
    facts = config, read_curve(trained), read_environment(trained)
    return FinishedRun(trained, results_folder, cell, *facts, results)


def list_files(trained: Trained, results_folder: Path) -> list[Path]:
    """List the files of a run without those of its checkpoint."""
    paths = (trained.config, trained.metrics, trained.environment)
    return [path for path in paths if path.is_file()] + run_folder.result_paths(results_folder)


def read_config(trained: Trained) -> dict[str, Any]:
    """Read the resolved configuration as plain values; empty where there is none."""
    file = trained.config
    if not file.is_file():
        return {}
    try:
        sections = [_parse_section(section) for section in SECTION.split(read_text(file)) if section.strip()]
    except UserError as error:
        raise UserError(f"{file}: not a configuration: {error}; remove the run and train it again") from error
    config = {key: value for section in sections for key, value in section.items()}
    if "cell" not in config:
        raise UserError(f"{file}: not a configuration: it names no cell; remove the run and train it again")
    for key, value in config.items():
        if not isinstance(value, dict):
            raise UserError(f"{file}: {key}={value!r}: must be a mapping; remove the run and train it again")
    return config


@lru_cache(maxsize=SECTIONS)
def _parse_section(section: str) -> Any:
    """Parse one section of a config.yaml; cached, since most are the same in hundreds of runs."""
    return yaml_text.to_plain(yaml_text.parse_yaml(section, "a section", "expected a mapping"), "a section")


def read_curve(trained: Trained) -> list[dict[str, Any]]:
    """Read the lines of metrics.jsonl in order; empty where there is no file."""
    if not trained.metrics.is_file():
        return []
    lines = read_text(trained.metrics).splitlines()
    return [_parse_line(trained.metrics, number, text) for number, text in enumerate(lines, 1) if text.strip()]


def _parse_line(file: Path, number: int, text: str) -> dict[str, Any]:
    value = json_text.parse_json(text, str(file), "train the run again", number)
    if not isinstance(value, dict) or type(value.get("step")) is not int:
        raise UserError(f"{file}: line {number} has no 'step'; train the run again")
    for key, logged in value.items():
        if logged is not None and type(logged) is not float and not _is_number(logged):  # a norm may be infinite
            raise UserError(f"{file}: line {number}: {key}={logged!r}: must be a number; train the run again")
    if (time := value.get("time")) is not None and not abs(time) < LATEST_S:  # true of NaN
        raise UserError(f"{file}: line {number}: time={time!r}: is no time of a clock; train the run again")
    return value


def _is_number(value: Any) -> bool:
    """A number that can be computed with, which JSON's longest are not."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def read_environment(trained: Trained) -> dict[str, Any]:
    """Read versions, machine, times and the run key; empty where there is no file.

    Raises UserError for a damaged one.
    """
    facts = trained.facts()
    rules = (
        (NUMBERS, _is_number, "a number"),
        (MAPPINGS, lambda value: isinstance(value, dict), "a mapping"),
        (SHARES, _is_shares, "numbers by name"),
    )
    for names, fits, rule in rules:
        for name in names:
            if facts.get(name) is not None and not fits(facts[name]):
                raise UserError(f"{trained.environment}: {name}={facts[name]!r}: must be {rule}; train the run again")
    return facts


def _is_shares(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def read_result(path: Path) -> Result:
    """Read one results file. Raises UserError where a field is missing or items and metric disagree."""
    raw = read_json(path)
    if isinstance(raw, dict) and (absent_keys := [key for key in DECLARED if key not in raw]):
        raise UserError(f"{path}: does not say its benchmark's {absent_keys[0]!r}; evaluate the run again")
    try:
        units = raw.get("units", {})
        items = {name: _parse_items(value, units.get(name, ())) for name, value in raw.get("items", {}).items()}
        if raw["kind"] not in KINDS:
            raise ValueError(f"kind {raw['kind']!r} is none of {', '.join(KINDS)}")
        result = Result(
            benchmark=str(raw["benchmark"]),
            module=str(raw.get("module", raw["benchmark"])),
            kind=raw["kind"],
            metrics=_parse_numbers(raw["metrics"]),
            lower=frozenset(map(str, raw["lower"])),
            scores=frozenset(map(str, raw["scores"])),
            counts=_parse_numbers(raw.get("counts", {})),
            items=items,
            means={name: [str(member) for member in members] for name, members in raw.get("means", {}).items()},
            fingerprint=str(raw.get("fingerprint", "")),
            seconds=float(raw.get("seconds", 0.0)),
            coverage={name: (int(scored), int(n)) for name, (scored, n) in raw.get("coverage", {}).items()},
            headline=tuple(map(str, raw["headline"])),
            tokenizer=str(raw.get("checkpoint", {}).get("tokenizer", "")),
            has_units="units" in raw,
        )
        _check_means(path, result)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(f"{path}: not a results file ({error!r}); evaluate the run again") from error
    return result


def _parse_numbers(raw: dict[str, Any]) -> dict[str, Any]:
    """Numbers by name; None stands for one of no item."""
    for name, value in raw.items():
        if value is not None and value == value and not _is_number(value):  # NaN: no item
            raise ValueError(f"{name}={value!r} is no number")
    return dict(raw)


def _parse_items(raw: dict[str, Any], units: list[int]) -> Items:
    ids, values = _share_ids(tuple(map(str, raw["ids"]))), np.asarray(raw["outcomes"], dtype=np.float64)
    if values.shape != (len(ids),):
        raise ValueError(f"{len(ids)} ids for {values.shape[0] if values.ndim == 1 else values.shape} outcomes")
    if units and (len(units) != len(ids) or not all(type(unit) is int and 0 <= unit < MOST_UNITS for unit in units)):
        raise ValueError(f"{len(ids)} ids for {len(units)} units, which must be whole numbers from 0 on")
    return Items(ids, values, units=_share_units(tuple(units)))


@lru_cache(maxsize=LISTS)
def _share_units(units: tuple[int, ...]) -> tuple[int, ...]:
    """The one copy of a list of units that runs and metrics have in common."""
    return units


@lru_cache(maxsize=LISTS)
def _share_ids(ids: tuple[str, ...]) -> tuple[str, ...]:
    """The one copy of a list of ids that runs and metrics have in common. Raises ValueError where one stands twice."""
    if len(set(ids)) != len(ids):
        raise ValueError(f"{len(ids)} ids, of which {len(set(ids))} are different")
    return ids


def _check_means(path: Path, result: Result) -> None:
    """Raise UserError for a metric that its own items or members do not reproduce."""
    for name in result.headline:
        if name not in result.metrics:
            raise UserError(f"{path}: headline {name!r} is no metric; evaluate the run again")
    for name, items in result.items.items():
        if name in result.metrics and len(items.values):
            _check_agreement(path, name, result.metrics[name], float(items.values.mean()))
    for name, members in result.means.items():
        if unknown_members := [m for m in members if m not in result.metrics]:
            raise UserError(
                f"{path}: {name} is a mean of {unknown_members[0]!r}, which is no metric; evaluate the run again"
            )
        _check_agreement(path, name, result.metrics[name], float(np.mean([result.metrics[m] for m in members])))


def _check_agreement(path: Path, name: str, stated: float, computed: float) -> None:
    if stated is None or not np.isclose(stated, computed, rtol=0, atol=1e-6, equal_nan=True):
        raise UserError(f"{path}: {name}={stated} but its items give {computed:.6f}; evaluate the run again")

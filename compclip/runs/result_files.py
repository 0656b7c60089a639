"""A finished run's files, parsed: its configuration, loss curve, environment, and the results of each benchmark.

Every file is checked as it is read, so that a number without its items, or items that contradict it, goes no further.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base import files, yaml_text
from compclip.base.errors import UserError
from compclip.base.files import hash_file, read_recorded, read_text
from compclip.config.cell import PRETRAINED, Cell
from compclip.config.grid import parse_cell
from compclip.runs import run_folder
from compclip.runs.item_outcomes import CLASSIFICATION, RETRIEVED, Items, Retrieved
from compclip.runs.run_folder import Trained

SECTION = re.compile(r"^(?=[a-z])", re.MULTILINE)  # where a section of config.yaml begins
SECTIONS = 1024  # sections kept in memory
LISTS = 2048  # lists of ids and units kept in memory: every run has those of the same benchmarks


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
        """The folder of the checkpoint that the results are of; None where it holds no weights."""
        folder = run_folder.find_shown_checkpoint(self.trained, self.results_folder)
        return folder if (folder / run_folder.WEIGHTS).is_file() else None


def read_finished_run(trained: Trained, results_folder: Path) -> FinishedRun:
    """Read one run with all results of its folder. Raises UserError where its configuration names no cell."""
    config = read_config(trained)
    cell = parse_cell(config.get("cell"), f"{trained.config}: cell")
    results = {result.benchmark: result for result in map(read_result, run_folder.result_paths(results_folder))}
    return FinishedRun(trained, results_folder, cell, config, read_curve(trained), trained.facts(), results)


def list_files(trained: Trained, results_folder: Path) -> list[Path]:
    """List the files of a run without those of its checkpoint."""
    paths = (trained.config, trained.metrics, trained.environment)
    return [path for path in paths if path.is_file()] + run_folder.result_paths(results_folder)


def read_config(trained: Trained) -> dict[str, Any]:
    """Read the resolved configuration as plain values; empty where there is none."""
    file = trained.config
    config = dict[str, Any]()
    if not file.is_file():
        return config
    try:
        for section in SECTION.split(read_text(file)):
            config |= _parse_section(section) if section.strip() else {}
        fault = "" if "cell" in config else "it names no cell"
    except UserError as error:
        fault = str(error)
    if fault:
        raise UserError(f"{file}: not a configuration: {fault}; remove the run and train it again")
    return config


@lru_cache(maxsize=SECTIONS)
def _parse_section(section: str) -> Any:
    """Parse one section of a config.yaml; cached, since most are the same in hundreds of runs."""
    config = yaml_text.parse_yaml(section, "a section", "expected a mapping")
    return yaml_text.to_plain(config, "a section", resolves=False)


def read_curve(trained: Trained) -> list[dict[str, Any]]:
    """Read the lines of metrics.jsonl in order; empty where there is no file.

    Raises UserError where a line is none, or environment.json records another file.
    """
    file = trained.metrics
    recorded = trained.facts().get(run_folder.METRICS_HASH)
    if recorded and file.is_file() and hash_file(file) != recorded:
        raise UserError(f"{file}: damaged: not what the training wrote; `compclip runs check` says how to get it back")
    rows = []
    for number, text in enumerate(read_text(file).splitlines() if file.is_file() else (), 1):
        row = files.parse_json(text, str(file), "train the run again", number)
        if not isinstance(row, dict) or "step" not in row:
            raise UserError(f"{file}: line {number} has no 'step'; train the run again")
        rows.append(row)
    return rows


def read_result(path: Path) -> Result:
    """Read one results file.

    Raises UserError where a field is missing, items and metric disagree, or its checksum is another.
    """
    raw = read_recorded(path)
    try:
        units = raw.get("units", {})
        pictures = raw.get("pictures")
        result = Result(
            benchmark=raw["benchmark"],
            module=raw.get("module", raw["benchmark"]),
            kind=raw["kind"],
            metrics=dict(raw["metrics"]),
            lower=frozenset(raw["lower"]),
            scores=frozenset(raw["scores"]),
            items={
                name: _parse_items(value, raw["kind"], units.get(name, ()), pictures)
                for name, value in raw.get("items", {}).items()
            },
            coverage={name: (scored, records) for name, (scored, records) in raw.get("coverage", {}).items()},
            headline=tuple(raw["headline"]),
            tokenizer=raw.get("checkpoint", {}).get("tokenizer", ""),
            **{name: raw[name] for name in ("counts", "means", "fingerprint", "seconds") if name in raw},
        )
        _check_means(result)
        if raw.get("retrieved"):
            _add_retrieved(result.items, raw["retrieved"])
    except KeyError as error:
        raise UserError(f"{path}: does not say its benchmark's {error}; evaluate the run again") from error
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(f"{path}: not a results file: {error}; evaluate the run again") from error
    return result


def _add_retrieved(items: dict[str, Items], raw: dict[str, list]) -> None:
    """Give the pictures' items the captions that stand first; their numbers are those of the captions' items."""
    queries, captions = (items[metric] for metric in RETRIEVED)
    number_NK = np.array(raw["numbers"], np.int64).reshape(len(queries.ids), -1)
    score_NK = np.array(raw["scores"], np.float64).reshape(number_NK.shape)
    items[RETRIEVED[0]] = replace(queries, retrieved=Retrieved(captions.ids, number_NK, score_NK))


def _parse_items(raw: dict[str, Any], kind: str, numbers: list[int], pictures: list[int | None] | None) -> Items:
    ids = _share(tuple(raw["ids"]))
    values = np.asarray(raw["outcomes"], dtype=np.float64)
    different = len(set(ids))
    if values.shape != (len(ids),) or different != len(ids):
        raise ValueError(f"{len(ids)} ids, of which {different} are different, for {values.size} outcomes")
    return make_items(ids, values, kind, numbers, pictures or ())


def make_items(
    ids: tuple[str, ...], values: np.ndarray, kind: str, numbers: Sequence[int], pictures: Sequence[int | None]
) -> Items:
    """Make a metric's items of their unit's numbers, and of each number's picture.

    Where a classification shows each picture once, each item is drawn by itself.
    """
    named = _name_units(tuple(numbers), tuple(pictures))
    is_repeated = kind != CLASSIFICATION or len(set(numbers)) < len(numbers)
    return Items(ids, values, units=named if is_repeated else (), pictures=named)


@lru_cache(maxsize=LISTS)
def _name_units(numbers: tuple[int, ...], pictures: tuple[int | None, ...]) -> tuple[int | str, ...]:
    """Return the picture of each unit's number; where there is none, the number as a name in this file."""
    if not pictures:
        return tuple(map(str, numbers))
    pairs = zip(numbers, [pictures[number] for number in numbers], strict=True)
    return tuple([str(number) if picture is None else picture for number, picture in pairs])


@lru_cache(maxsize=LISTS)
def _share(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the one copy of a list of ids or units that runs and metrics have in common."""
    return values


def _check_means(result: Result) -> None:
    """Raise ValueError for a metric that its own items or members do not reproduce."""
    computed = {name: items.values.mean() for name, items in result.items.items() if len(items.values)}
    for name, members in (*result.means.items(), ("headline", result.headline)):
        for member in members:
            if member not in result.metrics:
                raise ValueError(f"{name} is a mean of {member!r}, which is no metric")
    for name, members in result.means.items():
        computed[name] = np.mean([result.metrics[member] for member in members])
    for name, value in computed.items():
        if name in result.metrics and not np.isclose(result.metrics[name], value, rtol=0, atol=1e-6, equal_nan=True):
            raise ValueError(f"{name}={result.metrics[name]} but its items give {value:.6f}")

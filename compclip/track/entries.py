"""What MLflow is to show: one entry for each MLflow run, made from the files of runs; nothing here knows MLflow.

What a run's files held is kept beside the store as long as they are the same: path, size, time of change and inode. Its
loss curve is read when it is logged, and not before: an entry that is logged already needs none.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from compclip.base import files
from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_mapping, read_text, write_atomic
from compclip.config.cell import PRETRAINED, Cell
from compclip.config.columns import SUMMARY
from compclip.report import tables
from compclip.report.escape import to_code, to_markdown
from compclip.report.run_details import flatten_keys, format_duration
from compclip.report.tables import Column
from compclip.runs import result_files, run_folder
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import SHARE, SnapshotResults, Trained
from compclip.track.item_tables import ItemTable, ItemTables

if TYPE_CHECKING:
    from compclip.track.live import LiveRun

# Book-keeping; the UI shows no tag that begins with `mlflow.`.
KEY, CONTENT, FILES, COMPLETE = (f"mlflow.compclip.{name}" for name in ("key", "content", "files", "complete"))
NOTE = "mlflow.note.content"  # the tag of a description, in Markdown
NOTE_LIMIT = 8000  # characters of a tag in MLflow
PARAM_LIMIT = 500  # characters of a parameter
LAYOUT = 5  # raised when the same files are to be shown in another way
CURVE_OF_SYSTEM = ("samples_per_second", "matrix_share", "data_wait")
NOT_LOGGED = ("step", "time")
SCORE = "score/"
MIB = 2**20
# The ready-made comparison of an experiment: MLflow's shared view, which its UI opens by a key in the address.
VIEW = "comparison"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
ScoredRun = tuple[FinishedRun, Mapping[str, float]]  # a run and its scores


class MetricPoint(NamedTuple):
    """One point of a metric; `dataset` names the data it was measured on, if there is one."""

    name: str
    value: Any
    time: float
    step: int = 0
    dataset: str = ""

    @property
    def is_finite(self) -> bool:
        """Whether MLflow can hold the value."""
        return isinstance(self.value, (int, float)) and math.isfinite(self.value)


class DatasetUse(NamedTuple):
    """Data that a run read, and for what."""

    name: str
    digest: str
    source: str
    context: str


@dataclass(frozen=True)
class RunSummary:
    """A run without items and of its curve the last step alone; `content`: a hash of its files but the checkpoint."""

    run: FinishedRun
    content: str

    @property
    def name(self) -> str:
        """A cell's name, from where its run is published."""
        return cell_name(self.run.trained)

    @property
    def files(self) -> dict[str, Path]:
        """The files that `content` speaks of, by the names that MLflow gives them."""
        folder = self.run.results_folder
        paths = result_files.list_files(self.run.trained, folder)
        return {f"{run_folder.RESULTS}/{p.name}" if p.parent == folder else p.name: p for p in paths}


class SummaryCache:
    """What earlier calls read of runs, in a file with a line for each; without a file, what this one read."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lines = _read_cache(file) if file else {}
        self._has_changed = False

    def summary(self, trained: Trained, scores: Path) -> RunSummary:
        """Return a finished run. Raises UserError for a file that is none of a run's."""
        path = str(trained.path)
        stamp = _stamp_files(trained, scores)
        line = self._lines.get(path)
        if line is None or line["stamp"] != stamp:
            content = fingerprint(*result_files.list_files(trained, scores))
            run = _run_to_json(result_files.read_finished_run(trained, scores))
            line = {"path": path, "stamp": stamp, "content": content, "run": run}
            self._lines[path] = line
            self._has_changed = True
        return RunSummary(_run_from_json(line["run"], trained, scores), line["content"])

    def content(self, trained: Trained, scores: Path) -> str:
        """Return the hash of a run's files alone: nothing is parsed for it."""
        line = self._lines.get(str(trained.path))
        if line and line["stamp"] == _stamp_files(trained, scores):
            return str(line["content"])
        return fingerprint(*result_files.list_files(trained, scores))

    def save(self) -> None:
        """Write what is new for the next call; runs that are gone are forgotten."""
        if self._file and self._has_changed:
            lines = [line for path, line in self._lines.items() if Trained(Path(path)).config.is_file()]
            texts = [json.dumps(line, default=sorted) for line in ({"code": _code_fingerprint()}, *lines)]
            write_atomic(self._file, "\n".join(texts) + "\n")


def list_published(root: Path) -> Iterator[tuple[Trained, Path]]:
    """List every published run and the folder of its results, sorted by name."""
    for path in run_folder.published_folders(root / run_folder.RUNS):
        yield Trained(path), root / run_folder.RESULTS / path.parent.name / path.name


def cell_name(published: Trained) -> str:
    """Return method-backbone-data-seed."""
    return f"{published.path.parent.name}-{published.path.name}"


def _read_cache(file: Path) -> dict[str, dict[str, Any]]:
    """Read the lines of the file by run; none where it is missing or damaged, or other code wrote it."""
    try:
        code, *lines = (files.parse_json(line, str(file)) for line in read_text(file).splitlines())
        return {line["path"]: line for line in lines} if code["code"] == _code_fingerprint() else {}
    except (UserError, ValueError, KeyError, TypeError):
        return {}


def _code_fingerprint() -> str:
    """Return the fingerprint of the code that reads runs."""
    return fingerprint(Path(__file__), Path(result_files.__file__))


def _stamp_files(trained: Trained, scores: Path) -> list[list[Any]]:
    stamp = []
    for path in result_files.list_files(trained, scores):
        info = os.stat(path)
        stamp.append([str(path), info.st_size, info.st_mtime_ns, info.st_ino])
    return stamp


def _run_to_json(run: FinishedRun) -> dict[str, Any]:
    results = {name: asdict(replace(result, items={})) for name, result in run.results.items()}
    return {"cell": run.cell.plain, "config": run.config, "curve": run.curve[-1:], "environment": run.environment,
            "results": results}  # fmt: skip


def _run_from_json(raw: dict[str, Any], trained: Trained, scores: Path) -> FinishedRun:
    results = {}
    for name, result in raw["results"].items():
        sets = {key: frozenset(result[key]) for key in ("lower", "scores")}
        results[name] = Result(**result | sets | {"headline": tuple(result["headline"])})
    return FinishedRun(trained, scores, Cell(**raw["cell"]), raw["config"], raw["curve"], raw["environment"], results)


@dataclass(frozen=True)
class MlflowEntry:
    """One MLflow run as it should be; `at_home`: it belongs in `experiment` and is moved there.

    `project` tells ours from what others log. `numbers` stand beside the loss curve of `curve`; `files` are named as
    MLflow shows them, and `content_of_files` is their hash.
    """

    key: str
    name: str
    experiment: str
    project: str
    tags: dict[str, str]
    note: str
    params: dict[str, str] = field(default_factory=dict)
    numbers: tuple[MetricPoint, ...] = ()
    files: dict[str, Path] = field(default_factory=dict)
    content_of_files: str = ""
    curve: Trained | None = None
    datasets: tuple[DatasetUse, ...] = ()
    checkpoint: Path | None = None
    start: float = 0.0
    end: float = 0.0
    status: str = "FINISHED"
    parent: str = ""
    at_home: bool = True
    results: Path | None = None  # the folder of which `tables` makes tables of items
    tables: ItemTables | None = None
    pretrained_results: Path | None = None  # the folder that items are compared with
    content_of_pretrained: str = ""

    @cached_property
    def content(self) -> str:
        """A hash of what cannot be changed in an MLflow run once it is logged; times and the note are not in it."""
        numbers = [(v.name, repr(v.value), v.step) for v in self.numbers]
        rows = self.tables.rows if self.tables else 0
        content = [LAYOUT, rows, self.tags, self.params, numbers, self.datasets, self.status, bool(self.checkpoint)]
        text = json.dumps(content, sort_keys=True) + self.content_of_files + self.content_of_pretrained
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def files_stamp(self) -> str:
        """The hash of its files and the way that they are shown in, whatever the grid's columns are."""
        return f"{LAYOUT}:{self.content_of_files}"

    @cached_property
    def values(self) -> list[MetricPoint]:
        """The loss curve, read from its file, and the numbers."""
        return [*(curve_points(result_files.read_curve(self.curve)) if self.curve else ()), *self.numbers]

    def make_tables(self) -> list[ItemTable]:
        """Make its tables of items."""
        return self.tables.make(self.results, self.pretrained_results) if self.tables and self.results else []

    @property
    def scores(self) -> dict[str, float]:
        """The report's summary and one number for each benchmark."""
        return {v.name.removeprefix(SCORE): v.value for v in self.numbers if v.name.startswith(SCORE)}


@dataclass(frozen=True)
class EntryOptions:
    """How entries are made: the grid's experiment and cells, the report's columns, the upload limit, item tables."""

    experiment: str
    grid: frozenset[str]
    project: str
    columns: tuple[Column, ...] = ()
    checkpoint_mib: float = 64.0
    tables: ItemTables | None = None
    notice: str = ""  # what a reader must know before any number


@dataclass(frozen=True)
class TrackedProject:
    """Everything that the store is made from; `is_complete`: the stamp of what it holds may be written."""

    entries: tuple[MlflowEntry, ...]
    cells: tuple[RunSummary, ...]
    options: EntryOptions
    methods: tuple[str, ...] = ()
    is_complete: bool = True
    grid: tuple[ScoredRun, ...] = ()
    live: tuple[LiveRun, ...] = ()  # those that are shown


def make_cell_entries(summaries: Sequence[RunSummary], options: EntryOptions) -> list[MlflowEntry]:
    """Make an entry for each run."""
    runs = [summary.run for summary in summaries]
    content_of = {summary.run: summary.content for summary in summaries}
    entries = []
    for summary in summaries:
        run = summary.run
        pretrained = tables.select_pretrained_runs(runs, run.cell.backbone, run.cell.data)
        base = pretrained[0] if pretrained and options.tables and run not in pretrained else None
        inside = run.cell.name in options.grid
        folder = run.checkpoint
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) if folder else math.inf
        uploaded = size <= options.checkpoint_mib * MIB
        tags = {"kind": "cell", **cell_tags(run.cell, run.environment)}
        tags |= {"checkpoint": str(folder or ""), "checkpoint_uploaded": str(uploaded).lower()}
        experiment = options.experiment if inside else name_experiment(options.project, [run])
        note = describe_cell(run, pretrained, options.columns)
        entry = MlflowEntry(
            f"cell/{summary.name}", summary.name, experiment, options.project, tags, note,
            at_home=inside, checkpoint=folder if uploaded else None, results=run.results_folder, tables=options.tables,
            pretrained_results=base.results_folder if base else None,
            content_of_pretrained=content_of[base] if base else "",
        )  # fmt: skip
        entries.append(add_run(entry, summary, options.columns))
    return entries


def add_run(entry: MlflowEntry, summary: RunSummary, columns: Sequence[Column]) -> MlflowEntry:
    """Return the entry with the parameters, numbers, files and data of a finished run, behind those that it has."""
    run = summary.run
    return replace(
        entry,
        params=flatten_config(run.config) | entry.params,
        numbers=(*entry.numbers, *_result_points(run, columns), *_snapshot_points(run)),
        files=summary.files,
        content_of_files=summary.content,
        curve=run.trained,
        datasets=tuple(_list_datasets(run)),
        start=run.start,
        end=run.end,
    )


def name_experiment(
    project: str, runs: Iterable[FinishedRun] = (), backbones: Iterable[str] = (), data: Iterable[str] = ()
) -> str:
    """Return `project: backbones on data` of a grid, or of runs."""
    runs = list(runs)
    of_backbones = dict.fromkeys([*backbones, *(run.cell.backbone for run in runs)])
    of_data = dict.fromkeys([*data, *(run.cell.data for run in runs)])
    return f"{project}: {', '.join(of_backbones)} on {', '.join(of_data)}"


def cell_tags(cell: Cell, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of a cell and of what environment.json says, both of its own and of MLflow's."""
    tags = {k: str(getattr(cell, k)) for k in ("method", "backbone", "data", "seed")}
    tags |= {k: str(facts.get(k) or "") for k in ("run_key", "git_commit", "device")}
    fact_of_tag = {"host": "host", "mlflow.user": "user", "mlflow.source.git.branch": "git_branch"}
    tags |= {name: str(facts[fact]) for name, fact in fact_of_tag.items() if facts.get(fact)}
    commit = tags["git_commit"].rstrip("+")
    return tags | {"mlflow.source.name": "python -m compclip.train", "mlflow.source.git.commit": commit}


def flatten_config(config: dict[str, Any]) -> dict[str, str]:
    """Flatten the resolved configuration to dotted keys, the cell's own bare; a longer value ends with an ellipsis."""
    flat = {k.removeprefix("cell."): str(v) for k, v in flatten_keys(config).items() if v != {}}
    return {k: v if len(v) <= PARAM_LIMIT else v[: PARAM_LIMIT - 1] + "…" for k, v in flat.items()}


def curve_points(rows: Iterable[Mapping[str, Any]]) -> Iterator[MetricPoint]:
    """Yield the lines of a metrics.jsonl with its steps and times: losses as train/<term>, speeds as system/<fact>.

    What share of the samples had a text or picture keeps its name, share/<part>.
    """
    for line in rows:
        for key in (k for k in line if k not in NOT_LOGGED):
            group = "system/" if key in CURVE_OF_SYSTEM else "" if key.startswith(SHARE) else "train/"
            yield MetricPoint(f"{group}{key}", line[key], line["time"], line["step"])


def _result_points(run: FinishedRun, columns: Sequence[Column]) -> Iterator[MetricPoint]:
    """Yield results as <benchmark>/<metric>, whole-benchmark numbers as score/<benchmark>, facts as system/<fact>."""
    for result in run.results.values():
        for metric, value in result.metrics.items():
            name = f"{result.benchmark}/{metric}".replace("@", "_at_")  # MLflow refuses @
            yield MetricPoint(name, value, run.end, 0, result.benchmark)
    numbers = {c.name: tables.column_value(run, c) for c in columns if c.members}  # which no result file has
    numbers |= {f"{SCORE}{name}": value for name, value in compute_headlines(run, columns).items()}
    numbers |= {
        "system/peak_memory_mib": run.environment.get("peak_memory_mib"),
        "system/threads": run.environment.get("threads"),
        "system/train_seconds": run.environment.get("seconds"),
        "system/device_hours": device_hours(run),
        # each result file has the seconds of the whole pass over all benchmarks
        "system/evaluate_seconds": max((r.seconds for r in run.results.values()), default=None),
    }
    for name, number in numbers.items():
        if number is not None:
            yield MetricPoint(name, number, run.end)


def _snapshot_points(run: FinishedRun) -> Iterator[MetricPoint]:
    """Yield the results at shares of the training as snapshot/<benchmark>/<metric>, a step each; none without any."""
    published = SnapshotResults(run.results_folder)
    steps = read_mapping(published.record)["steps"] if published.record.is_file() else {}
    for share, step in sorted(steps.items(), key=lambda item: item[1]):
        for name, value in read_mapping(published.at(float(share)) / run_folder.SUMMARY).items():
            if name.count("/") == 1:  # groups of items are in the files
                yield MetricPoint(f"snapshot/{name}".replace("@", "_at_"), value, run.end, step)


def compute_headlines(run: FinishedRun, columns: Sequence[Column]) -> dict[str, float]:
    """Compute comp, zs, i2t and t2i of the report's summary, then one number for each benchmark by its name."""
    summary = tables.summary_columns(columns, [run])
    headlines = {c.metric.lower(): tables.column_value(run, c) for c in summary}
    headlines |= {name: tables.column_value(run, _headline_column(name, run, summary)) for name in run.results}
    return {name: value for name, value in headlines.items() if value is not None}


def _headline_column(benchmark: str, run: FinishedRun, summary: Sequence[Column]) -> Column:
    """Return the whole-benchmark column: the report's part of Comp or ZS, else the benchmark's headline."""
    members = [column for c in summary if c.metric in ("Comp", "ZS") for column in c.members]
    report_column = next((column for column in members if column.benchmark == benchmark), None)
    return report_column or Column(SUMMARY, benchmark, tables.headline(benchmark, [run]))


def _list_datasets(run: FinishedRun) -> Iterator[DatasetUse]:
    data = run.config.get("data")
    if run.curve and data:
        digest = run.environment.get("data_fingerprint")
        # without the fingerprint of its contents, the data set is known by what the configuration says of it
        digest = digest or "cfg-" + hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
        yield DatasetUse(run.cell.data, digest[:32], json.dumps(data), "training")
    for result in run.results.values():
        source = json.dumps({"benchmark": result.module, "counts": result.counts})
        yield DatasetUse(result.benchmark, result.fingerprint[:32] or "unknown", source, "evaluation")


def select_columns(runs: Sequence[FinishedRun], column_names: Sequence[str]) -> tuple[Column, ...]:
    """Select the report's columns that some run has; without names, every metric that is no detail of another."""
    benchmarks = list(dict.fromkeys(b for run in runs for b in run.results))
    every_column = {c.name: c for c in tables.list_columns(runs, benchmarks)}
    available = [name for name in column_names if tables.resolve_column(name, every_column)]
    return tables.select_columns(runs, available, benchmarks)


def find_winners(scored: Sequence[ScoredRun]) -> dict[str, tuple[FinishedRun, float]]:
    """Find the best run by each benchmark's one number, the first of equals; a benchmark without one has no winner."""
    winners: dict[str, tuple[FinishedRun, float]] = {}
    for run, values in scored:
        for name in run.results:
            if name in values and (name not in winners or values[name] > winners[name][1]):
                winners[name] = (run, values[name])
    return winners


def describe_cell(run: FinishedRun, pretrained: Sequence[FinishedRun], columns: Sequence[Column]) -> str:
    """Describe what the cell is, and its numbers against the pretrained model's means over its runs."""
    cell = run.cell
    origin = "evaluated as it is" if cell.method == PRETRAINED else f"fine-tuned on **{to_markdown(cell.data)}**"
    head = f"**{to_markdown(cell.method)}**: backbone **{to_markdown(cell.backbone)}** {origin}, seed {cell.seed}."
    seconds = run.environment.get("seconds")
    if run.curve and seconds:
        device = to_markdown(str(run.environment.get("device")))
        head += f" Training took {format_duration(seconds)} on {device}."
    head += f" Files: {to_code(str(run.trained.path))}."
    lines = []
    for column in (*tables.summary_columns(columns, [run]), *columns):
        value = tables.column_value(run, column)
        if value is None:
            continue
        name = f"{to_markdown(column.name)} {column.arrow}".strip()
        scale = column.scale
        digits = column.digits
        values = [tables.column_value(base, column) for base in pretrained]
        known = [value for value in values if value is not None]
        comparison = "– | –"
        if known:
            mean = float(np.mean(known))
            comparison = f"{mean * scale:.{digits}f} | {(value - mean) * scale:+.{digits}f}"
        lines.append(f"| {name} | {value * scale:.{digits}f} | {comparison} |")
    table = ["| metric | this run | pretrained | difference |", "| --- | ---: | ---: | ---: |", *lines]
    return "\n".join([head, "", *(table if lines else ["Not evaluated yet."])])[:NOTE_LIMIT]


def describe_grid(
    methods: Sequence[str], runs: Sequence[FinishedRun], winners: Mapping[str, tuple[FinishedRun, float]], model: str,
    notice: str = "",
) -> str:  # fmt: skip
    """Describe how to read an experiment, what it cost, and its best checkpoints; `notice` comes first."""
    lines = [
        *([f"**{notice}**", ""] if notice else []),
        f"Methods: {to_markdown(', '.join(methods))}. One run a cell (method, backbone, data, seed); sweeps are runs "
        "of their own with their trials below them. Made from the run directories by `compclip track`.",
        "",
        "Metrics: `score/…` one number a benchmark, `comp`, `zs`, `i2t` and `t2i` as in the report; "
        "`benchmark/metric` everything that was measured; `train/…` loss curves; `system/…` time and memory.",
    ]
    # cells that share a run paid for it once
    hours = {run.environment.get("run_key") or run.cell.name: device_hours(run) for run in runs}
    counted = [h for h in hours.values() if h is not None]
    if counted:
        coverage = "" if len(counted) == len(hours) else f" that {len(counted)} of {len(hours)} runs know of"
        lines += ["", f"Training took {sum(counted):.2f} device-hours{coverage}, interrupted lives counted."]
    if winners:
        lines += ["", "| benchmark | best checkpoint | value | load it with `mlflow.pyfunc.load_model` |",
                  "| --- | --- | ---: | --- |"]  # fmt: skip
    for benchmark, (run, value) in winners.items():
        address = to_code(f"models:/{model}@{best_alias(benchmark)}")
        lines.append(f"| {to_markdown(benchmark)} | {to_markdown(run.cell.name)} | {100 * value:.1f} | {address} |")
    return "\n".join(lines)[:NOTE_LIMIT]


def device_hours(run: FinishedRun) -> float | None:
    """Return hours of GPUs, or of a CPU process, over all lives of a run; None for runs that did not count them."""
    seconds = run.environment.get("device_seconds")
    return None if seconds is None else seconds / 3600


def best_alias(benchmark: str) -> str:
    """Return the alias of a benchmark's best checkpoint."""
    return f"best-{benchmark}"


def view_tags(scores: Sequence[str]) -> dict[str, str]:
    """Return the experiment tag that holds the view: a row a cell, the best `comp` first, every score, method and seed.

    Without scores: the newest first, with losses and speed. Sweeps are left out: sorted by a score, the UI would show
    their trials among the cells.
    """
    metrics = [f"score/{name}" for name in scores] or ["train/loss", "system/samples_per_second"]
    columns = [f"metrics.`{name}`" for name in metrics] + ["params.`method`", "params.`seed`"]
    order = columns[0] if scores else "attributes.start_time"
    state = {"orderByKey": order, "orderByAsc": False, "selectedColumns": columns,
             "searchFilter": "tags.kind = 'cell'", "startTime": "ALL", "lifecycleFilter": "Active"}  # fmt: skip
    return {VIEW_TAG: json.dumps(state)}

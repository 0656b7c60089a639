"""What MLflow is to show: one entry for each MLflow run, made from the files of runs; nothing here knows MLflow.

A run's loss curve is read when it is logged, and not before: an entry that is logged already needs none.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from compclip.base import files, yaml_text
from compclip.base.files import fingerprint, read_stamp
from compclip.base.shared_folders import read_user
from compclip.config.cell import PRETRAINED, Cell
from compclip.config.columns import SUMMARY
from compclip.report import tables
from compclip.report.escape import to_code, to_markdown
from compclip.report.tables import Column
from compclip.runs import jobs, progress, result_files, run_folder, run_store, run_table, status
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import SHARE, VALIDATION, Trained
from compclip.runs.run_store import StoredRun
from compclip.runs.run_table import ListedRun

# Book-keeping; the UI shows no tag that begins with `mlflow.`.
KEY = "mlflow.compclip.key"
CONTENT = "mlflow.compclip.content"
COMPLETE = "mlflow.compclip.complete"
GRID = "grid"  # the tag of a run that the list of methods shows: a row, or a cell of the grid
NOTE = "mlflow.note.content"  # the tag of a description, in Markdown
NOTE_LIMIT = 8000  # characters of a tag in MLflow
PARAM_LIMIT = 500  # characters of a parameter
LAYOUT = 9  # raised when the same files are to be shown in another way
CURVE_OF_SYSTEM = ("samples_per_second", "matrix_share", "data_wait")
NOT_LOGGED = ("step", "time")
FACT_OF_TAG = {"host": "host", "mlflow.user": "user", "mlflow.source.git.branch": "git_branch"}  # of environment.json
REFUSED = re.compile(r"[^\w.\- :/]")  # characters that MLflow takes for no metric's name


class MetricPoint(NamedTuple):
    """One point of a metric; `dataset` names the data it was measured on. Without a time: at the end of its run."""

    name: str
    value: Any
    dataset: str = ""
    step: int = 0
    time: float = 0.0


class DatasetUse(NamedTuple):
    """Data that a run read, and for what."""

    name: str
    digest: str
    source: str
    context: str


@dataclass(frozen=True)
class RunSummary:
    """A run without items and of its curve the last step alone.

    `files` are those of the run but its checkpoint, by the names that MLflow gives them; `content` is their hash.
    """

    run: FinishedRun
    files: dict[str, Path]
    content: str


def read_run(trained: Trained, scores: Path) -> RunSummary:
    """Return a finished run; one whose files are as they were is not read again. Raises UserError for a damaged one."""
    paths = tuple(result_files.list_files(trained, scores))
    return _read_run(trained, scores, paths, tuple(map(read_stamp, paths)))


@functools.cache
def _read_run(trained: Trained, scores: Path, paths: tuple[Path, ...], _stamps: tuple[Any, ...]) -> RunSummary:
    run = result_files.read_finished_run(trained, scores)
    results = {name: replace(result, items={}) for name, result in run.results.items()}
    files_by_name = {}
    for path in paths:
        files_by_name[f"{run_folder.RESULTS}/{path.name}" if path.parent == scores else path.name] = path
    return RunSummary(replace(run, curve=run.curve[-1:], results=results), files_by_name, fingerprint(*paths))


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
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)  # as `mlflow.log_table` writes them, by path

    @cached_property
    def content(self) -> str:
        """A hash of what an MLflow run shows; the store has the entry as long as it is the same."""
        numbers = [(point.name, repr(point.value), point.step) for point in self.numbers]
        contents = [LAYOUT, self.tags, self.note, self.params, numbers, self.datasets, self.status,
                 bool(self.checkpoint), self.tables, self.content_of_files]  # fmt: skip
        return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()

    @property
    def values(self) -> Iterator[MetricPoint]:
        """The loss curve, read from its file, and the numbers."""
        if self.curve:
            yield from curve_points(result_files.read_curve(self.curve))
        for point in self.numbers:
            yield point._replace(time=self.end)


@dataclass(frozen=True)
class EntryOptions:
    """How entries are made: the grid's experiment and cells, and the report's columns."""

    experiment: str
    grid: frozenset[str]
    project: str
    columns: tuple[Column, ...] = ()
    notice: str = ""  # what a reader must know before any number
    headlines: tuple[Column, ...] = ()  # of the grid

    @cached_property
    def headline_of(self) -> dict[str, Column]:
        """The headlines by MLflow's names of them."""
        return {metric_name(column.benchmark, column.metric): column for column in self.headlines}


def make_cell_entries(
    summaries: Sequence[RunSummary], options: EntryOptions, rows: Collection[str]
) -> list[MlflowEntry]:
    """Make an entry for each run; those of the grid are below their row of the report, where `rows` has its key."""
    entries = []
    for summary in summaries:
        run = summary.run
        inside = run.cell.name in options.grid
        tags = {"kind": "cell", GRID: str(inside).lower(), **cell_tags(run.cell, run.environment)}
        tags["checkpoint"] = str(run.checkpoint or "")
        experiment = options.experiment if inside else name_experiment(options.project, [run.cell])
        name = run.trained.published_name
        row = row_key(run.cell.method, run.cell.backbone, run.cell.data)
        entry = MlflowEntry(
            f"cell/{name}", name, experiment, options.project, tags, describe_cell(run),
            at_home=inside, checkpoint=run.checkpoint, parent=row if inside and row in rows else "",
        )  # fmt: skip
        entries.append(add_run(entry, summary, options.columns))
    return entries


def row_key(method: str, backbone: str, data: str) -> str:
    """Return the key of the entry of a row of the report."""
    return f"row/{method}/{backbone}/{data}"


def add_run(entry: MlflowEntry, summary: RunSummary, columns: Sequence[Column]) -> MlflowEntry:
    """Return the entry with the parameters, numbers, files and data of a finished run, behind those that it has."""
    run = summary.run
    return replace(
        entry,
        params=flatten_config(run.config) | entry.params,
        numbers=(*entry.numbers, *_result_points(run, columns)),
        files=summary.files,
        content_of_files=summary.content,
        curve=run.trained,
        datasets=tuple(list_datasets(run)),
        start=run.start,
        end=run.end,
    )


def name_experiment(project: str, cells: Sequence[Cell]) -> str:
    """Return `project: backbones on data` of cells."""
    backbones = dict.fromkeys(cell.backbone for cell in cells)
    data = dict.fromkeys(cell.data for cell in cells)
    return f"{project}: {', '.join(backbones)} on {', '.join(data)}"


def cell_tags(cell: Cell, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of a cell and of what environment.json says, both of its own and of MLflow's."""
    tags = {**cell.plain, "seed": str(cell.seed), "mlflow.source.name": "python -m compclip.train"}
    for fact in ("run_key", "git_commit", "device"):
        tags[fact] = str(facts.get(fact) or "")
    tags["mlflow.source.git.commit"] = tags["git_commit"].rstrip("+")
    for tag, fact in FACT_OF_TAG.items():
        if facts.get(fact):
            tags[tag] = str(facts[fact])
    return tags


def flatten_config(config: dict[str, Any]) -> dict[str, str]:
    """Flatten the resolved configuration to dotted keys, the cell's own bare; a longer value ends with an ellipsis."""
    flat = {}
    for name, value in yaml_text.flatten(config).items():
        if value != {}:
            text = str(value)
            flat[name.removeprefix("cell.")] = text if len(text) <= PARAM_LIMIT else text[: PARAM_LIMIT - 1] + "…"
    return flat


def curve_points(rows: Iterable[Mapping[str, Any]]) -> Iterator[MetricPoint]:
    """Yield the lines of a metrics.jsonl with its steps and times: losses as train/<term>, speeds as system/<fact>.

    What held-out pictures gave keeps its name, validation/<metric>, as share/<part> of the samples.
    """
    for line in rows:
        for key, value in line.items():
            if key not in NOT_LOGGED:
                group = "system/" if key in CURVE_OF_SYSTEM else "" if key.startswith((SHARE, VALIDATION)) else "train/"
                yield MetricPoint(f"{group}{key}", value, step=line["step"], time=line["time"])


def metric_name(benchmark: str, metric: str) -> str:
    """Return MLflow's name of a metric; those of the summary are bare, and so come first where names are sorted."""
    name = metric if benchmark == SUMMARY else f"{benchmark}/{metric}"
    return REFUSED.sub("_", name.replace("@", "_at_"))


def _result_points(run: FinishedRun, columns: Sequence[Column]) -> Iterator[MetricPoint]:
    """Yield results in percent as <benchmark>/<metric>, the report's summary by its bare names, facts as system/<fact>.

    Scores, which are cosines, stay as they are.
    """
    evaluate_seconds = None
    for result in run.results.values():
        for metric, value in result.metrics.items():
            scale = tables.make_measured_column(result, metric).scale
            yield MetricPoint(metric_name(result.benchmark, metric), scale * value, result.benchmark)
        # each result file has the seconds of the whole pass over all benchmarks
        evaluate_seconds = max(result.seconds, evaluate_seconds or 0.0)
    for column in (*tables.summary_columns(columns, [run]), *columns):
        mean = tables.column_value(run, column) if column.members else None  # others are in the result files
        if mean is not None:
            yield MetricPoint(metric_name(column.benchmark, column.metric), column.scale * mean)
    facts = {
        "peak_memory_mib": run.environment.get("peak_memory_mib"),
        "threads": run.environment.get("threads"),
        "train_seconds": run.environment.get("seconds"),
        "device_hours": device_hours(run),
        "evaluate_seconds": evaluate_seconds,
    }
    for name, number in facts.items():
        if number is not None:
            yield MetricPoint(f"system/{name}", number)


def list_datasets(run: FinishedRun) -> Iterator[DatasetUse]:
    """List the data that a run was trained on, and that it was scored on."""
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
    benchmarks = list(tables.benchmark_kinds(runs))
    every_column = {column.name: column for column in tables.list_columns(runs, benchmarks)}
    available = [name for name in column_names if tables.resolve_column(name, every_column)]
    return tables.select_columns(runs, available, benchmarks)


def describe_cell(run: FinishedRun) -> str:
    """Describe what the cell is, and where its files are."""
    cell = run.cell
    origin = "evaluated as it is" if cell.method == PRETRAINED else f"fine-tuned on **{to_markdown(cell.data)}**"
    head = f"**{to_markdown(cell.method)}**: backbone **{to_markdown(cell.backbone)}** {origin}, seed {cell.seed}."
    seconds = run.environment.get("seconds")
    if run.curve and seconds:
        device = to_markdown(str(run.environment.get("device")))
        head += f" Training took {status.format_duration(seconds)} on {device}."
    return f"{head} Files: {to_code(str(run.trained.path))}."[:NOTE_LIMIT]


def describe_grid(methods: Sequence[str], runs: Sequence[FinishedRun], links: str, notice: str = "") -> str:
    """Describe how to read an experiment and what it cost; `notice` comes first, `links` open its views."""
    first = f"**{notice}** {links}" if notice else links
    lines = [
        first,
        "",
        f"Methods: {to_markdown(', '.join(methods))}.",
        "",
        "`Comp`, `General` and `benchmark/metric` are the report's means for a method, and the run's own numbers for a "
        "seed, in percent. `… vs reference` is the verdict with the 95 % interval. All other numbers of a method are "
        "tables among its artifacts.",
    ]
    hours_by_run = {}  # cells that share a run paid for it once
    for run in runs:
        hours = device_hours(run)
        if hours is not None:
            hours_by_run[run.environment.get("run_key") or run.cell.name] = hours
    if hours_by_run:
        lines += ["", f"Training took {sum(hours_by_run.values()):.2f} device-hours, interrupted lives counted."]
    return "\n".join(lines)[:NOTE_LIMIT]


def device_hours(run: FinishedRun) -> float | None:
    """Return hours of GPUs, or of a CPU process, over all lives of a run; None for runs that did not count them."""
    seconds = run.environment.get("device_seconds")
    return None if seconds is None else seconds / 3600


# --- runs that are not published yet --------------------------------------------------------------------------------
# Runs of the grid that are not published yet, as their files show them: state, tags, and the new lines of a curve.


PREFIX = "live/"  # of the keys of their MLflow runs
# MLflow's word for each state of `compclip status`; a run that nobody trains and that logged nothing was stopped, too.
STATUSES = {
    **dict.fromkeys((jobs.RUNNING, run_table.SCORING), "RUNNING"),
    jobs.PENDING: "SCHEDULED",
    **dict.fromkeys((jobs.FAILED, run_table.DAMAGED), "FAILED"),
    **dict.fromkeys((run_table.STOPPED, run_table.STALE), "KILLED"),
    **dict.fromkeys((run_table.TRAINED, jobs.DONE, run_table.PUBLISHED), "FINISHED"),
}
UNDER_WAY = ("RUNNING", "SCHEDULED")


@dataclass(frozen=True)
class LiveRun:
    """A planned run; `state` as `compclip status` has it, `error` why it failed."""

    run: StoredRun
    state: str
    error: str = ""

    @property
    def key(self) -> str:
        """The key of its MLflow run: the same however often the run goes on."""
        return f"{PREFIX}{self.run.name}/{self.run.key}"

    @property
    def status(self) -> str:
        """MLflow's word for the state."""
        return STATUSES[self.state]

    @property
    def is_shown(self) -> bool:
        """Whether a process ever worked on it, and it is not published."""
        return self.state != run_table.PUBLISHED and self.run.folder.lives.is_dir()

    @property
    def signature(self) -> tuple[Any, ...]:
        """Another one whenever there is something new to log."""
        changing = self.run.published.results if self.state == run_table.PUBLISHED else self.run.folder.progress
        stamp = read_stamp(changing) if changing and changing.exists() else None
        return self.state, self.error, self.is_shown, stamp

    @cached_property
    def lives(self) -> list[dict[str, Any]]:
        """What the processes that worked on it noted, in order."""
        return list(progress.read_lives(self.run.folder).values())

    @property
    def tags(self) -> dict[str, str]:
        """Its cell, whose it is, its state, and a description."""
        host = self.lives[-1].get("host", "") if self.lives else ""
        facts = {"run_key": self.run.key, "user": read_user(os.stat(self.run.folder.lives).st_uid), "host": host}
        note = f"**{to_markdown(self.run.name)}** is {self.state} and not published yet. {to_markdown(self.error)}"
        tags = {"kind": "cell", GRID: "true", **cell_tags(self.run.cell, facts), "state": self.state}
        return tags | {NOTE: note.rstrip()[:NOTE_LIMIT]}

    @property
    def start(self) -> float:
        """When a process first worked on it, in seconds since the epoch."""
        return self.lives[0]["started"] if self.lives else os.stat(self.run.folder.lives).st_mtime

    @property
    def end(self) -> float:
        """When its log was last written; when it began, without one."""
        log = self.run.folder.progress
        return log.stat().st_mtime if log else self.start

    def read_rows(self, last: int) -> list[dict[str, Any]]:
        """Read the complete lines of its curve behind step `last`, from the end; none of a run whose files are damaged.

        A trainer that goes on from a checkpoint makes some steps again: those up to `last` have the same numbers.
        """
        log = self.run.folder.progress
        if not log or self.state == run_table.DAMAGED:
            return []
        rows = []
        for line in reversed(log.read_bytes().split(b"\n")[:-1]):
            row = files.parse_json(line.decode(errors="replace"), str(log), "train the run again")
            if row["step"] <= last:
                break
            rows.append(row)
        return rows[::-1]


def list_runs(root: Path = Path()) -> list[LiveRun]:
    """List the planned runs that have a key, as they are now."""
    return [_read_state(run) for run in run_store.list_planned(root)]


def _read_state(run: StoredRun) -> LiveRun:
    if run.published.trained.run_key == run.key:
        return LiveRun(run, run_table.PUBLISHED)
    if not run.folder.path.is_dir():
        return LiveRun(run, run_table.STALE)
    row = run_table.make_row(ListedRun(run.name, run.folder, run.resolved["train"]))
    return LiveRun(run, row.state, row.error)

"""Results of the grid's cells: taken over where somebody scored the same, else scored here together, and published.

An evaluation is known by what it depends on: weights, benchmarks, the way they are scored, and code. What is there
already costs no model and no import of torch.

Test items have no say: a choice is made on validation items, whatever the report shows. Scores and checkpoint of what
was chosen are published in the cell's place, those of all snapshots beside it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import links
from compclip.base.errors import UserError, unknown
from compclip.base.files import fingerprint, read_mapping, read_recorded, record_checksums, temporary_path, write_json
from compclip.base.safe_names import SafeName
from compclip.config.cell import PRETRAINED, Cell
from compclip.config.grid import Run
from compclip.config.sections import VALIDATION, Params, Scoring
from compclip.config.sections import BenchmarkSection as Section
from compclip.runs import run_folder, run_store
from compclip.runs import run_folder as folders
from compclip.runs.run_folder import END, Inputs, Published, RunFolder, Trained

if TYPE_CHECKING:
    from compclip.report.tables import Column
    from compclip.runs.result_files import FinishedRun
    from compclip.runs.run_store import StoredRun

CENSUSES = Path("data/benchmarks")  # what `write_census` counted of each benchmark


@dataclass(frozen=True)
class EvaluationTask:
    """What checkpoints are scored on, and how; `code` is the fingerprint of what scores them."""

    sections: Mapping[str, Section]
    how: Scoring
    code: str
    root: Path = Path(".")

    @functools.cached_property
    def dependencies(self) -> list:
        """What an evaluation depends on besides the weights."""
        scored = {}
        for name, section in sorted(self.sections.items()):
            files_read = benchmark_fingerprint(SafeName(name, "benchmark"), section, self.root)
            scored[name] = [section.benchmark or name, files_read]
        return [scored, self.how.recorded(), self.code]

    def identity(self, weights: str) -> str:
        """Return what is equal for equal results: of weights, benchmarks, the way they are scored and code."""
        return hashlib.sha256(json.dumps([weights, *self.dependencies]).encode()).hexdigest()[:16]


def task_from_params(params: Params, root: Path = Path(".")) -> EvaluationTask:
    """Return the evaluation that params.yaml asks for."""
    from compclip.config import plan

    names = params.evaluate.benchmarks
    code = plan.hash_evaluation_code(params, names)
    return EvaluationTask({n: params.benchmarks[n] for n in names}, params.evaluate.scoring, code, root)


def task_from_plan(document: Mapping[str, Any], root: Path = Path(".")) -> EvaluationTask:
    """Return the evaluation that a plan file asks for."""
    sections = {name: Section(**section) for name, section in document["benchmarks"].items()}
    return EvaluationTask(sections, Scoring(**document["how"]), document["code"], root)


# --- a run's results ------------------------------------------------------------------------------------------


def find_results(task: EvaluationTask, folder: RunFolder) -> Path | None:
    """Return the results that a finished run has, where they are those that the task would give.

    Raises UserError where not all of the run is its own.
    """
    folder.check()
    results = _results_folder(task, folder) if folder.finished else None
    return results if results and results.is_dir() else None


def find_metrics(task: EvaluationTask, cell: Cell) -> dict[str, float] | None:
    """Return "benchmark/metric": value of a cell that was scored as the task says; None for any other."""
    try:
        results = find_results(task, _finished_run(cell, task.root))
    except UserError:  # it was not trained here
        return None
    return read_recorded(results / folders.SUMMARY) if results else None


def _results_folder(task: EvaluationTask, folder: RunFolder) -> Path:
    return folder.scores(task.identity(_weights_fingerprint(folder.final)))


def _weights_fingerprint(trained: Trained) -> str:
    """Return the fingerprint of a finished training's weights, as its own files have it."""
    return str(trained.facts().get("weights_fingerprint") or fingerprint(trained.checkpoint))


def store_results(task: EvaluationTask, folder: RunFolder, documents: Mapping[str, dict]) -> Path:
    """Leave results with a finished run: the folder is complete or not there. Raises UserError as `find_results`."""
    folder.check()  # once more: scoring takes long
    results = _results_folder(task, folder)
    temporary = temporary_path(results, "new")
    try:
        write_documents(documents, temporary)
        with contextlib.suppress(OSError):  # somebody else's, made at the same time
            os.replace(temporary, results)
    finally:
        links.remove(temporary)
    return results


def mark_scored(folder: RunFolder, results: Path) -> None:
    """Say that these are the results that the run's job left."""
    write_json(folder.scored, {"identity": results.name})


def is_scored(params: Params, run: StoredRun) -> bool:
    """Return whether a finished run has the results that an evaluation would give now, which are then the job's."""
    results = find_results(task_from_params(params, run.root), run.folder)
    if results:
        mark_scored(run.folder, results)
    return results is not None


def publish_link(results: Path, cell: Cell, root: Path) -> None:
    """Link results to the cell's place."""
    if run_store.is_shared():
        links.protect(results)
    links.link_or_copy(results, Published(root, cell).results)


def write_documents(documents: Mapping[str, dict], folder: Path) -> None:
    """Write <benchmark>.json and summary.json into `folder`, each whole, and their checksums; other files stay."""
    summary = {}
    paths = {name: folders.result_path(folder, SafeName(name, "benchmark")) for name in documents}
    for name, document in documents.items():
        write_json(paths[name], document)
        for metric, value in document["metrics"].items():
            summary[f"{name}/{metric}"] = value
    write_json(folder / folders.SUMMARY, summary)
    record_checksums(folder, (folders.SUMMARY, *(path.name for path in paths.values())))


# --- cells ----------------------------------------------------------------------------------------------------


@dataclass
class PublishedResults:
    """What became of cells: the folder of each one's results, and why others have none."""

    results: dict[str, Path] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    scored: int = 0
    scored_ahead: int = 0  # runs that other stages publish


@dataclass
class _UnscoredCell:
    """A cell whose results are published when all its folders, the run's own and its snapshots', are scored."""

    cell: Cell
    folder: RunFolder
    waits_for: set[RunFolder]


def publish_results(
    cells: Sequence[Cell],
    task: EvaluationTask,
    list_others: Callable[[], Sequence[RunFolder]] = tuple,
    snapshots: SnapshotTask | None = None,
) -> PublishedResults:
    """Publish every cell's results; what is there already costs no model and no import of torch.

    If a cell has to be scored, the finished runs of `list_others` that lack results join its pass over the pictures,
    which costs less than one of their own; their stages find the results, or say why there are none. Snapshots that
    `snapshots` asks for are scored in the same pass.
    """
    outcome = PublishedResults()
    unscored = list[_UnscoredCell]()
    snapshots = snapshots or SnapshotTask()
    for cell in cells:
        try:
            folder = _finished_run(cell, task.root)
            waits_for = {f for f in _list_parts(cell, folder, snapshots) if not find_results(task, f)}
        except UserError as error:
            outcome.failed[cell.name] = str(error)
            continue
        unscored.append(_UnscoredCell(cell, folder, waits_for))
        if not waits_for:
            _publish(unscored.pop(), task, snapshots, outcome)
    ahead = _find_unscored(list_others(), task) if unscored else []
    requested: list[RunFolder] = []
    for waiting in unscored:
        requested += sorted(waiting.waits_for, key=lambda folder: folder.path)
    for folder, scored in _score_runs(list(dict.fromkeys([*requested, *ahead])), task):
        if folder not in requested:
            outcome.scored_ahead += not isinstance(scored, UserError)
            continue
        outcome.scored += not isinstance(scored, UserError)
        for waiting in unscored:
            if folder not in waiting.waits_for:
                continue
            if isinstance(scored, UserError):
                outcome.failed[waiting.cell.name] = str(scored)
                continue
            waiting.waits_for.remove(folder)
            if not waiting.waits_for:
                _publish(waiting, task, snapshots, outcome)
    return outcome


def _list_parts(cell: Cell, folder: RunFolder, snapshots: SnapshotTask) -> list[RunFolder]:
    """List the folders that a cell's results are made of. Raises UserError for a snapshot that is not there."""
    snapshot_folders = [folder.snapshot(share) for share in snapshots.list_shares(cell)]
    for snapshot in snapshot_folders:
        if not snapshot.finished:
            raise UserError(
                f"{snapshot.path}: no such snapshot; run `compclip repro -f train@{cell.method}`, which makes it"
            )
    return snapshot_folders


def _find_unscored(folders: Sequence[RunFolder], task: EvaluationTask) -> list[RunFolder]:
    """Return the finished runs that have no results of the task; what is damaged is left to its own stage."""
    unscored = []
    for folder in folders:
        with contextlib.suppress(UserError):
            if folder.finished and not find_results(task, folder):
                unscored.append(folder)
    return unscored


def _finished_run(cell: Cell, root: Path) -> RunFolder:
    """Return the run of a published cell in the store. Raises UserError where the cell was not trained."""
    trained = Published(root, cell).trained
    if not trained.environment.is_file():
        raise UserError(f"{trained.path}: not there; run `compclip repro train@{cell.method}` first")
    folder = run_store.find_folder(trained.run_key, root)
    folder.check()
    if not folder.finished:
        _existing(trained.checkpoint, f"train@{cell.method}")
        run_store.adopt_published(trained, folder)
    return folder


def _publish(waiting: _UnscoredCell, task: EvaluationTask, snapshots: SnapshotTask, outcome: PublishedResults) -> None:
    cell = waiting.cell
    root = task.root
    try:
        all_results = {}
        for share in snapshots.list_shares(cell):
            results = find_results(task, waiting.folder.snapshot(share))
            if results:
                all_results[share] = results
        row_results = publish_snapshots(cell, waiting.folder, all_results, snapshots, root)
        publish_link(row_results, cell, root)
    except UserError as error:
        outcome.failed[cell.name] = str(error)
    else:
        outcome.results[cell.name] = row_results


def find_checkpoint(cell: Cell, root: Path) -> Path:
    """Return a cell's checkpoint: its own, or for the method `pretrained` that was not published the backbone itself.

    Where a snapshot was chosen it is that one's. Raises UserError where it was not made yet.
    """
    published = Published(root, cell)
    path = folders.find_shown_checkpoint(published.trained, published.results)
    if cell.method == PRETRAINED and not path.exists():
        return find_backbone(cell, root)
    return _existing(path, f"train@{cell.method}")


def find_backbone(cell: Cell, root: Path) -> Path:
    """Return the backbone of a cell. Raises UserError where it was not made yet."""
    return _existing(Inputs(root, cell).backbone, f"backbone@{cell.backbone}")


def _existing(path: Path, stage: str) -> Path:
    if not path.exists():
        raise UserError(f"{path}: not there; run `compclip repro {stage}` first")
    return path


def score_run(folder: RunFolder, task: EvaluationTask, shares: Sequence[float] = ()) -> Path:
    """Return the results of a finished run: those that it has, or scored now and stored with it.

    Its snapshots at `shares` are scored in the same pass.
    """
    folders = [folder, *map(folder.snapshot, shares)]
    unscored = [candidate for candidate in folders if not find_results(task, candidate)]
    for _, scored in _score_runs(unscored, task):
        if isinstance(scored, UserError):
            raise scored
    return _results_folder(task, folder)


def _score_runs(run_folders: Sequence[RunFolder], task: EvaluationTask) -> Iterator[tuple[RunFolder, Path | UserError]]:
    """Score finished runs together and keep the results with each; one that fails leaves the others alone."""
    if not run_folders:
        return
    from compclip.evaluate import benchmark_module, score, scoring_options

    loaded = benchmark_module.load_benchmarks(task.sections, list(task.sections), task.how)
    folder_of = {str(folder.final.checkpoint): folder for folder in run_folders}
    checkpoints = []
    for ref, folder in folder_of.items():
        made_with = {"run_key": folder.final.run_key, "fingerprint": _weights_fingerprint(folder.final)}
        checkpoints.append(score.ScoredCheckpoint(ref, made_with, device=score.device()))
    for checkpoint, documents in score.score_checkpoints(checkpoints, loaded):
        folder = folder_of[checkpoint.ref]
        if isinstance(documents, UserError):
            yield folder, documents
            continue
        scoring_options.print_warnings(documents)
        try:
            results: Path | UserError = store_results(task, folder, documents)
        except UserError as error:
            results = error
        yield folder, results


# --- what a benchmark's files hold, by which an evaluation is recognised without reading any ----------------------


def write_census(
    name: SafeName, section: Section, root: Path = Path("."), report_metrics: Sequence[str] = ()
) -> dict[str, Any]:
    """Count a benchmark and keep what was found, with the state of its files; gives the counts.

    Raises UserError for a metric of the report's columns (`report_metrics`) that the files do not have.
    """
    from compclip.config import columns
    from compclip.evaluate import benchmark_module
    from compclip.evaluate.benchmark import parse_reference
    from compclip.prepare import benchmark_overlap, record_writer

    benchmark = benchmark_module.load_benchmark(name, section)
    metrics = benchmark_module.score_made_vectors(benchmark).metrics if report_metrics else {}
    for metric in columns.list_absent(report_metrics, metrics):
        where = f"{columns.WHERE}: not in the files of {name}"
        raise unknown("column", f"{name}/{metric}", [f"{name}/{available}" for available in metrics], where)
    counts = benchmark_module.count_benchmark(benchmark)
    file_states = {str(file): file_state(file) for file in benchmark.files}
    pictures = dict.fromkeys(parse_reference(ref)[0] for ref in benchmark.images)
    benchmark_overlap.write_benchmark_images(root / CENSUSES / f"{name}.arrow", pictures)
    all_records = benchmark.authors or benchmark
    stored_records = benchmark_module.list_stored_records(all_records)
    fingerprints = list(dict.fromkeys((counts["fingerprint"], all_records.fingerprint())))
    record_writer.write_records(record_writer.records_file(root, name), stored_records, fingerprints)
    census = counts | {"section": asdict(section), "files": file_states}
    write_json(root / CENSUSES / f"{name}.json", census)
    return counts


def benchmark_fingerprint(name: SafeName, section: Section, root: Path = Path(".")) -> str:
    """Return the stored fingerprint of a benchmark while its files are unchanged, else a new one."""
    path = root / CENSUSES / f"{name}.json"
    census: Mapping[str, Any] = read_mapping(path) if path.is_file() else {}
    files = census.get("files") or {"": None}
    states = {file: file_state(Path(file)) for file in files}
    if census.get("section") == asdict(section) and states == files:
        return str(census["fingerprint"])
    from compclip.evaluate.benchmark_module import load_benchmark

    return load_benchmark(name, section).fingerprint()


def file_state(file: Path) -> list[int] | None:
    """Return size and modification time of a file, None where there is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


# --- which of a run's snapshots its row shows: the best by a column on validation items, or the end


@dataclass(frozen=True)
class SnapshotRequest:
    """The shares of a run's training that are scored, and the column by which one is chosen; "": the end is shown."""

    shares: tuple[float, ...] = ()
    column: str = ""


@dataclass(frozen=True)
class ChoiceTerms:
    """What a choice reads: validation items, as of `PictureSplit`, and the report's columns, for means."""

    share: float = 0.2
    authors: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class SnapshotTask:
    """The requests of some cells by name, and the terms of their choices."""

    requests: Mapping[str, SnapshotRequest] = field(default_factory=dict)
    terms: ChoiceTerms = field(default_factory=ChoiceTerms)

    def list_shares(self, cell: Cell) -> tuple[float, ...]:
        """List the shares of a cell's training that have results, the end among them."""
        return (*self.requests.get(cell.name, SnapshotRequest()).shares, END)


def snapshots_from_plan(document: Mapping[str, Any]) -> SnapshotTask:
    """Return what the plan of a method's evaluation asks of its snapshots."""
    planned = document.get("snapshots", {})
    requests = {}
    for folder, request in planned.get("requests", {}).items():
        cell = Cell(**document["cells"][folder]["cell"])
        requests[cell.name] = SnapshotRequest(tuple(request["shares"]), request["column"])
    terms = planned.get("terms", {})
    columns = tuple(terms.get("columns", ()))
    return SnapshotTask(requests, ChoiceTerms(terms.get("share", 0.2), terms.get("authors", {}), columns))


def snapshots_from_run(run: Run, params: Params) -> SnapshotTask:
    """Return what params.yaml asks of one run's snapshots."""
    from compclip.runs.picture_splits import make_split

    request = SnapshotRequest(tuple(run.train.snapshots), run.train.choose)
    split = make_split(params, VALIDATION)
    terms = ChoiceTerms(split.share, split.authors, tuple(params.report.columns))
    return SnapshotTask({run.cell.name: request}, terms)


def publish_snapshots(
    cell: Cell, folder: RunFolder, results: Mapping[float, Path], task: SnapshotTask, root: Path
) -> Path:
    """Publish the results of a run's snapshots and which one is shown; return the results that the cell is to have.

    `results` has a folder for each share, the end among them.
    """
    published = Published(root, cell).snapshots
    request = task.requests.get(cell.name, SnapshotRequest())
    if not request.shares:
        links.remove(published.path)
        return results[END]
    for share, scored in results.items():
        if run_store.is_shared():
            links.protect(scored)
        links.link_or_copy(scored, published.at(share))
    if published.path.is_dir():
        result_folders = {published.at(share) for share in results}
        for path in published.path.iterdir():
            if path.is_dir() and path not in result_folders and path != published.checkpoint:
                links.remove(path)
    values = choose_values(results, request.column, task.terms) if request.column else {}
    best_share = find_best(values) if values else END
    if request.column:
        links.link_or_copy(folder.snapshot(best_share).final.checkpoint, published.checkpoint)
    else:
        links.remove(published.checkpoint)
    facts = {share: folder.snapshot(share).final.facts() for share in request.shares}
    steps = {str(share): facts[share]["step"] for share in request.shares}
    steps |= {str(END): facts[request.shares[0]]["steps"]}
    record = {"steps": steps, "column": request.column, "shown": best_share}
    write_json(published.record, record | {"values": {str(share): value for share, value in values.items()}})
    return results[best_share]


def find_best(values: Mapping[float, float]) -> float:
    """Return the share with the highest value; of equals the least trained."""
    return max(sorted(values), key=lambda share: values[share])


def choose_values(results: Mapping[float, Path], name: str, terms: ChoiceTerms) -> dict[float, float]:
    """Return for each share what a column says on validation items; of a column of which less is better, its negative.

    Raises UserError where it has no such items, or is a cosine.
    """
    from compclip.report import tables

    runs = {share: _read_validation(folder, terms) for share, folder in results.items()}
    column = _find_column(list(runs.values()), name, terms.columns)
    values = {}
    for share, run in runs.items():
        value = tables.column_value(run, column)
        if value is None or column.score:
            why = "is a cosine, of which neither more nor less is better" if column.score else "has no validation items"
            raise UserError(f"train.choose={name}: {why}; name another column")
        values[share] = -value if column.lower else value
    return values


def _read_validation(folder: Path, terms: ChoiceTerms) -> FinishedRun:
    from compclip.runs import result_files
    from compclip.runs.picture_splits import PictureSplit

    split = PictureSplit(VALIDATION, terms.share, terms.authors)
    results = {path.stem: result_files.read_result(path) for path in run_folder.result_paths(folder)}
    cell = Cell("snapshot", "backbone", "data", 0)
    return result_files.FinishedRun(run_folder.Trained(folder), folder, cell, {}, [], {}, split.select_results(results))


def _find_column(runs: list[FinishedRun], name: str, report_columns: tuple[str, ...]) -> Column:
    """Return a column by its name: a metric, a mean of both ways of retrieval, or one of the report's means."""
    from compclip.report import tables

    benchmarks = list(dict.fromkeys(benchmark for run in runs for benchmark in run.results))
    available = {column.name: column for column in tables.list_columns(runs, benchmarks)}
    resolved = [tables.resolve_column(column, available) for column in report_columns]
    columns = list(filter(None, resolved)) or tables.select_columns(runs, None, benchmarks)
    means = {column.name: column for column in tables.summary_columns(columns, runs)}
    column = means.get(name) or tables.resolve_column(name, available)
    if column is None:
        raise UserError(f"train.choose={name}: is not measured on validation items; name another column")
    return column

"""Which of a run's snapshots its row shows: the best by a column on validation items, or the end of the training.

Test items have no say: a choice is made on validation items, whatever the report shows. Scores and checkpoint of what
was chosen are published in the cell's place, those of all snapshots beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import links
from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config.cell import Cell
from compclip.config.grid import Run
from compclip.config.sections import VALIDATION, Params
from compclip.runs import run_folder, run_store
from compclip.runs.run_folder import END, Published, RunFolder

if TYPE_CHECKING:
    from compclip.report.tables import Column
    from compclip.runs.result_files import FinishedRun


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


def task_from_plan(document: Mapping[str, Any]) -> SnapshotTask:
    """Return what the plan of a method's evaluation asks of its snapshots."""
    planned = document.get("snapshots", {})
    requests = {
        Cell(**document["cells"][folder]["cell"]).name: SnapshotRequest(tuple(request["shares"]), request["column"])
        for folder, request in planned.get("requests", {}).items()
    }
    terms = planned.get("terms", {})
    columns = tuple(terms.get("columns", ()))
    return SnapshotTask(requests, ChoiceTerms(terms.get("share", 0.2), terms.get("authors", {}), columns))


def task_from_run(run: Run, params: Params) -> SnapshotTask:
    """Return what params.yaml asks of one run's snapshots."""
    from compclip.runs.picture_splits import make_split

    request, split = SnapshotRequest(tuple(run.train.snapshots), run.train.choose), make_split(params, VALIDATION)
    terms = ChoiceTerms(split.share, split.authors, tuple(params.report.columns))
    return SnapshotTask({run.cell.name: request}, terms)


def publish_snapshots(
    cell: Cell, folder: RunFolder, results: Mapping[float, Path], task: SnapshotTask, root: Path
) -> Path:
    """Publish the results of a run's snapshots and which one is shown; return the results that the cell is to have.

    `results` has a folder for each share, the end among them.
    """
    published, request = Published(root, cell).snapshots, task.requests.get(cell.name, SnapshotRequest())
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
    trained, cell = run_folder.Trained(folder), Cell("snapshot", "backbone", "data", 0)
    return result_files.FinishedRun(trained, folder, cell, {}, [], {}, split.select_results(results))


def _find_column(runs: list[FinishedRun], name: str, report_columns: tuple[str, ...]) -> Column:
    """Return a column by its name: a metric, a mean of both ways of retrieval, or one of the report's means."""
    from compclip.report import tables

    benchmarks = list(dict.fromkeys(benchmark for run in runs for benchmark in run.results))
    available = {column.name: column for column in tables.list_columns(runs, benchmarks)}
    resolved = (tables.resolve_column(column, available) for column in report_columns)
    columns = [c for c in resolved if c] or tables.select_columns(runs, None, benchmarks)
    means = {column.name: column for column in tables.summary_columns(columns, runs)}
    column = means.get(name) or tables.resolve_column(name, available)
    if column is None:
        raise UserError(f"train.choose={name}: is not measured on validation items; name another column")
    return column

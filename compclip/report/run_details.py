"""The runs of the grid: which cells have all their results, what the others lack, and what is behind the numbers.

The pretrained model needs only its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import yaml_text
from compclip.base.errors import UserError
from compclip.base.messages import format_percent
from compclip.base.progress_line import ProgressLine
from compclip.base.safe_names import SafeName
from compclip.config import grid, sections
from compclip.config.cell import PRETRAINED
from compclip.interface.method import load_method
from compclip.report.tables import MethodRow, ResultTable
from compclip.runs import progress, result_files, run_folder
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.progress import describe_replaced
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import CUT, FAULTS, REPLACED, Published
from compclip.runs.run_store import RESOURCES

if TYPE_CHECKING:
    from compclip.config.cell import Cell


@dataclass(frozen=True)
class MissingResult:
    """A cell, or one result of a cell, that the grid asks for and nobody has published."""

    cell: str
    reason: str


def collect_runs(
    cells: Iterable[Cell], benchmarks: Iterable[str], root: Path, partial: bool = False
) -> tuple[list[FinishedRun], list[MissingResult]]:
    """Collect every cell's run, in the order of `cells`, and what is missing.

    Raises UserError naming the missing cells and results unless `partial`.
    """
    benchmarks = list(benchmarks)
    runs = []
    missing = []
    all_cells = list(cells)
    for cell in ProgressLine("runs", len(all_cells), all_cells):
        run, cell_missing = read_cell(Published(root, cell), benchmarks)
        missing += cell_missing
        if run is not None:
            runs.append(run)
    if missing and not partial:
        listing = "; ".join(f"{m.cell}: {m.reason}" for m in missing)
        raise UserError(f"{root}: {len(missing)} missing: {listing}; run `compclip repro`, or give --partial")
    if not runs:
        raise UserError(f"{root}: holds no cell of the grid; run `compclip repro` or give --root")
    return runs, missing


def read_cell(published: Published, benchmarks: list[str]) -> tuple[FinishedRun | None, list[MissingResult]]:
    """Read one cell's run (None where nothing of it can be shown) and what it lacks, with the reason."""
    cell = published.cell
    trained = published.trained
    if not trained.path.is_dir() and not published.results.is_dir():
        return None, [MissingResult(cell.name, "no run directory")]
    files = () if cell.method == PRETRAINED else (trained.config, trained.metrics, trained.environment)
    reasons = [f"no {path.name}" for path in files if not path.is_file()]
    results: dict[str, Result] = {}
    for name in benchmarks:
        path = run_folder.result_path(published.results, SafeName(name, "benchmark"))
        try:
            if path.is_file():
                results[name] = result_files.read_result(path)
            else:
                reasons.append(f"no result of {name}")
        except UserError as error:
            reasons.append(str(error))
    run = None
    try:
        config = result_files.read_config(trained)
        curve = result_files.read_curve(trained)
        facts = trained.facts()
        if results:
            run = FinishedRun(trained, published.results, cell, config, curve, facts, results)
    except UserError as error:
        reasons.append(str(error))
    return run, [MissingResult(cell.name, reason) for reason in reasons]


def read_results(folder: Path, benchmarks: Iterable[str]) -> dict[str, Result]:
    """Read the results that a folder has of some benchmarks. Raises UserError for a damaged file."""
    results = {}
    for name in benchmarks:
        path = run_folder.result_path(folder, SafeName(name, "benchmark"))
        if path.is_file():
            results[name] = result_files.read_result(path)
    return results


def select_split(runs: Sequence[FinishedRun], split: PictureSplit) -> list[FinishedRun]:
    """Return runs with the items of a split alone. Raises UserError where a benchmark has none."""
    selected = []
    for whole_run in runs:
        run = split.select(whole_run)
        absent = whole_run.results.keys() - run.results.keys() - set(split.authors.values())
        if absent:
            raise UserError(
                f"report.split={split.name}: {whole_run.cell.name} has no such items of {min(absent)}; evaluate it "
                "again (`compclip repro`), or set another evaluate.validation_share"
            )
        selected.append(run)
    return selected


def find_stale_runs(params: sections.Params, runs: Iterable[FinishedRun], partial: bool) -> list[MissingResult]:
    """Find runs whose parameters are not the grid's: their mean with other seeds would be of two methods.

    An option that is newer than a run counts at its default. Raises UserError naming the first unless `partial`.
    """
    stale = []
    settings_of: dict[tuple[str, str, str], tuple[dict[str, Any], dict[str, Any]]] = {}
    for run in runs:
        method = run.cell.method
        if method == PRETRAINED or not run.config:
            continue
        key = (method, run.cell.backbone, run.cell.data)
        if key not in settings_of:
            resolved = grid.resolve_cell(params, run.cell)
            settings = {"method": grid.list_values(resolved.method), "train": asdict(resolved.train)}
            defaults = {"method": grid.list_values(type(resolved.method)()), "train": asdict(sections.Train())}
            settings_of[key] = (_flatten_settings(settings, method), _flatten_settings(defaults, method))
        declared, defaults_of_method = settings_of[key]
        used = defaults_of_method | _flatten_settings(run.config, method)
        for name in sorted(declared.keys() | used.keys()):
            if declared.get(name) != used.get(name):
                difference = f"{name}={used.get(name)} where the grid has {declared.get(name)}"
                stale.append(MissingResult(run.cell.name, f"trained with {difference}"))
                break
    if stale and not partial:
        count = f" ({len(stale)} such runs)" if len(stale) > 1 else ""
        raise UserError(f"{stale[0].cell}: {stale[0].reason}{count}; run `compclip repro`, or give --partial")
    return stale


def _flatten_settings(raw: dict[str, Any], method: str) -> dict[str, Any]:
    """Return the settings that decide a run's numbers, as config.yaml would have them; without training's, its own."""
    values = yaml_text.flatten({"method": raw.get("method", {})})
    if load_method(method).TRAINS:
        values |= yaml_text.flatten({"train": raw.get("train", {})})
    for name in RESOURCES:
        values.pop(f"train.{name}", None)
    return values


# --- environments and hours


def list_stand_in_tokenizers(runs: Sequence[FinishedRun]) -> list[tuple[str, str]]:
    """List (tokenizer, cells) for runs whose texts a stand-in read: their scores do not compare with others."""
    cells: dict[str, dict[str, None]] = {}
    for run in runs:
        for result in run.results.values():
            if result.tokenizer:
                cells.setdefault(result.tokenizer, {})[run.cell.name] = None
    return [(name, "all runs" if len(c) == len(runs) else ", ".join(c)) for name, c in cells.items()]


def format_total_hours(runs: Sequence[FinishedRun]) -> str:
    """Format GPU-hours, apart from them process-hours on a CPU, and how many runs say none; a dash for none."""
    spent = []
    silent = 0
    for run in runs:
        seconds = run.environment.get("device_seconds")
        spent.append((seconds or 0.0, progress.is_on_gpu(run.environment)))
        silent += seconds is None
    hours = progress.format_sum(spent) or "–"
    return f"{hours} (without {silent} of {len(runs)} runs, which do not say)" if 0 < silent < len(runs) else hours


RARE = 0.05  # a share below it is said in a sentence


def average_shares(row: MethodRow) -> dict[str, float]:
    """Average each view's share over the runs of a row that say any; a fault that one does not say is 0 there."""
    shares_by_view: dict[str, list[float]] = {}
    runs = 0
    for run in row.runs:
        recorded = run.environment.get("view_shares") or {}
        runs += bool(recorded)
        for view, share in recorded.items():
            shares_by_view.setdefault(view, []).append(share)
    averages = {}
    for view, shares in shares_by_view.items():
        averages[view] = fsum(shares) / (runs if view.startswith(FAULTS) else len(shares))
    return averages


def describe_shares(group: ResultTable) -> list[str]:
    """Say which texts and pictures that a method asks for were rare, cut or replaced, by a table's rows."""
    notes = []
    for row in group.rows:
        for view, share in average_shares(row).items():
            percent = format_percent(share)
            if view.startswith(CUT):
                kind = view.removeprefix(CUT)
                notes.append(f"{row.method}: {percent} of the {kind} differ behind the model's context: masked")
            elif view == REPLACED:
                notes.append(f"{row.method}: {describe_replaced(share)}")
            elif share < RARE:
                notes.append(f"{row.method}: {view} was there for {percent} of the samples")
    return notes

"""Which cells of the grid are there with all their results, and what of the others is missing.

The pretrained model needs only its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.errors import UserError
from compclip.base.progress_line import ProgressLine
from compclip.base.safe_names import SafeName
from compclip.config import grid, sections
from compclip.config.cell import PRETRAINED
from compclip.interface.method import load_method
from compclip.report.run_details import SECTIONS, flatten_keys
from compclip.runs import result_files, run_folder
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import Published
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
    benchmarks, runs, missing, all_cells = list(benchmarks), [], [], list(cells)
    for cell in ProgressLine("runs", len(all_cells), all_cells):
        run, cell_missing = read_cell(Published(root, cell), benchmarks)
        missing += cell_missing
        if run is not None:
            runs.append(run)
    if missing and not partial:
        listing = "; ".join(f"{m.cell}: {m.reason}" for m in missing)
        raise UserError(f"{root}: {len(missing)} missing: {listing}; run `dvc repro`, or give --partial")
    if not runs:
        raise UserError(f"{root}: holds no cell of the grid; run `dvc repro` or give --root")
    return runs, missing


def read_cell(published: Published, benchmarks: list[str]) -> tuple[FinishedRun | None, list[MissingResult]]:
    """Read one cell's run (None where nothing of it can be shown) and what it lacks, with the reason."""
    cell, trained = published.cell, published.trained
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
        config, curve, facts = result_files.read_config(trained), result_files.read_curve(trained), trained.facts()
        if results:
            run = FinishedRun(trained, published.results, cell, config, curve, facts, results)
    except UserError as error:
        reasons.append(str(error))
    return run, [MissingResult(cell.name, reason) for reason in reasons]


def select_split(runs: Sequence[FinishedRun], split: PictureSplit) -> list[FinishedRun]:
    """Return runs with the items of a split alone. Raises UserError where a benchmark has none."""
    selected = [split.select(run) for run in runs]
    for whole_run, run in zip(runs, selected, strict=True):
        if absent := whole_run.results.keys() - run.results.keys() - set(split.authors.values()):
            raise UserError(
                f"report.split={split.name}: {whole_run.cell.name} has no such items of {min(absent)}; evaluate it "
                "again (`dvc repro`), or set another evaluate.validation_share"
            )
    return selected


def find_stale_runs(params: sections.Params, runs: Iterable[FinishedRun], partial: bool) -> list[MissingResult]:
    """Find runs whose parameters are not the grid's: their mean with other seeds would be of two methods.

    Raises UserError naming the first unless `partial`.
    """
    stale = []
    settings_of: dict[tuple[str, str, str], dict[str, Any]] = {}
    for run in (run for run in runs if run.cell.method != PRETRAINED and run.config):
        method = run.cell.method
        key = (method, run.cell.backbone, run.cell.data)
        if key not in settings_of:
            resolved = grid.resolve_cell(params, run.cell)
            settings_of[key] = _flatten_settings(
                {"method": asdict(resolved.method), "train": asdict(resolved.train)}, method
            )
        declared, used = settings_of[key], _flatten_settings(run.config, method)
        names = sorted(declared.keys() | used.keys())
        changed = [name for name in names if declared.get(name) != used.get(name)]
        if changed:
            difference = f"{changed[0]}={used.get(changed[0])} where the grid has {declared.get(changed[0])}"
            stale.append(MissingResult(run.cell.name, f"trained with {difference}"))
    if stale and not partial:
        count = f" ({len(stale)} such runs)" if len(stale) > 1 else ""
        raise UserError(f"{stale[0].cell}: {stale[0].reason}{count}; run `dvc repro`, or give --partial")
    return stale


def _flatten_settings(raw: dict[str, Any], method: str) -> dict[str, Any]:
    """Return the settings that decide a run's numbers, as config.yaml would have them; without training's, its own."""
    sections_read = SECTIONS if load_method(method).TRAINS else ("method",)
    values = flatten_keys({section: raw.get(section, {}) for section in sections_read})
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    return {key: value for key, value in values.items() if key.removeprefix("train.") not in RESOURCES}

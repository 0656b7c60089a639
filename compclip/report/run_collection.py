"""Which cells of the grid are there with all their results, and what of the others is missing.

The pretrained model needs only its results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.errors import UserError
from compclip.base.safe_names import SafeName
from compclip.config import grid, sections
from compclip.config.grid import PRETRAINED
from compclip.interface.method import load_method
from compclip.report.run_details import SECTIONS, flatten_keys
from compclip.runs import result_files, run_folder
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import Published
from compclip.runs.run_key import RESOURCES

if TYPE_CHECKING:
    from compclip.config.grid import Cell


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
    benchmarks, runs, missing = list(benchmarks), [], []
    for cell in cells:
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
    missing = [MissingResult(cell.name, f"no {path.name}") for path in files if not path.is_file()]
    scored, failed = _read_results(published, benchmarks)
    missing += [MissingResult(cell.name, reason) for reason in failed]
    try:
        facts = (
            result_files.read_config(trained),
            result_files.read_curve(trained),
            result_files.read_environment(trained),
        )
    except UserError as error:
        return None, [*missing, MissingResult(cell.name, str(error))]
    return (FinishedRun(trained, published.results, cell, *facts, scored) if scored else None), missing


def _read_results(published: Published, benchmarks: list[str]) -> tuple[dict[str, Result], list[str]]:
    """Read the results by benchmark, and the reasons why others are absent."""
    results, failed = {}, []
    for name in benchmarks:
        path = run_folder.result_path(published.results, SafeName(name, "benchmark"))
        if not path.is_file():
            failed.append(f"no result of {name}")
            continue
        try:
            results[name] = result_files.read_result(path)
        except UserError as error:
            failed.append(str(error))
    return results, failed


def find_stale_runs(params: sections.Params, runs: Iterable[FinishedRun], partial: bool) -> list[MissingResult]:
    """Find runs whose parameters are not the grid's: their mean with other seeds would be of two methods.

    Raises UserError naming the first unless `partial`.
    """
    grid_settings = functools.cache(functools.partial(_grid_settings, params))
    stale = [
        MissingResult(run.cell.name, f"trained with {difference}")
        for run in runs
        if (difference := _first_difference(run, grid_settings))
    ]
    if stale and not partial:
        count = f" ({len(stale)} such runs)" if len(stale) > 1 else ""
        raise UserError(f"{stale[0].cell}: {stale[0].reason}{count}; run `dvc repro`, or give --partial")
    return stale


def _first_difference(run: FinishedRun, grid_settings: Callable[[str, str], dict[str, Any]]) -> str:
    """Return the first parameter that differs; empty where none does."""
    if run.cell.method == PRETRAINED or not run.config:
        return ""
    declared, used = grid_settings(run.cell.method, run.cell.data), _flatten_settings(run.config)
    if not load_method(run.cell.method).TRAINS:
        declared, used = (
            {k: v for k, v in values.items() if not k.startswith("train.")} for values in (declared, used)
        )
    for key in sorted(declared.keys() | used.keys()):
        if declared.get(key) != used.get(key):
            return f"{key}={used.get(key)} where the grid has {declared.get(key)}"
    return ""


def _grid_settings(params: sections.Params, method: str, data: str) -> dict[str, Any]:
    """Return the grid's present settings of a method on a data set, as config.yaml would have them."""
    config, train = grid.method_config(params, method, data)
    return _flatten_settings({"method": asdict(config), "train": asdict(train)})


def _flatten_settings(raw: dict[str, Any]) -> dict[str, Any]:
    values = flatten_keys({section: raw.get(section, {}) for section in SECTIONS})
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    return {key: value for key, value in values.items() if key.removeprefix("train.") not in RESOURCES}

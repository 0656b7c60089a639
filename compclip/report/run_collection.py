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
from compclip.base.names import Name
from compclip.config import grid, sections
from compclip.config.cell import PRETRAINED
from compclip.interface.method import load_method
from compclip.report.run_details import SECTIONS, flatten_keys
from compclip.runs import result_files, run_folder
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import Published
from compclip.runs.run_key import RESOURCES

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
    """Every cell's run, in the order of `cells`, and what is missing.

    Raises UserError naming the missing cells and results unless `partial`.
    """
    benchmarks, found, missing = list(benchmarks), [], []
    for cell in cells:
        run, lacks = read_cell(Published(root, cell), benchmarks)
        missing += lacks
        if run is not None:
            found.append(run)
    if missing and not partial:
        listed = "; ".join(f"{m.cell}: {m.reason}" for m in missing)
        raise UserError(f"{root}: {len(missing)} missing: {listed}; run `dvc repro`, or give --partial")
    if not found:
        raise UserError(f"{root}: holds no cell of the grid; run `dvc repro` or give --root")
    return found, missing


def read_cell(place: Published, benchmarks: list[str]) -> tuple[FinishedRun | None, list[MissingResult]]:
    """One cell's run (None where nothing of it can be shown) and what it lacks, with the reason."""
    cell, trained = place.cell, place.trained
    if not trained.path.is_dir() and not place.results.is_dir():
        return None, [MissingResult(cell.name, "no run directory")]
    lacks = [MissingResult(cell.name, f"no {name}") for name in _absent(place)]
    scored, failed = _results(place, benchmarks)
    lacks += [MissingResult(cell.name, reason) for reason in failed]
    try:
        facts = (
            result_files.read_config(trained),
            result_files.read_curve(trained),
            result_files.read_environment(trained),
        )
    except UserError as error:
        return None, [*lacks, MissingResult(cell.name, str(error))]
    return (FinishedRun(trained, place.results, cell, *facts, scored) if scored else None), lacks


def _absent(place: Published) -> list[str]:
    """The files of training that are not there."""
    trained = place.trained
    wanted = () if place.cell.method == PRETRAINED else (trained.config, trained.metrics, trained.environment)
    return [path.name for path in wanted if not path.is_file()]


def _results(place: Published, benchmarks: list[str]) -> tuple[dict[str, Result], list[str]]:
    """The results there are by benchmark, and why the others are not."""
    found, failed = {}, []
    for name in benchmarks:
        path = run_folder.result_path(place.results, Name(name, "benchmark"))
        if not path.is_file():
            failed.append(f"no result of {name}")
            continue
        try:
            found[name] = result_files.read_result(path)
        except UserError as error:
            failed.append(str(error))
    return found, failed


def find_stale_runs(params: sections.Params, runs: Iterable[FinishedRun], partial: bool) -> list[MissingResult]:
    """A line for each such run; its mean with other seeds would be of two methods.

    Raises UserError naming the first unless `partial`.
    """
    wanted = functools.cache(functools.partial(_grid_settings, params))
    found = [
        MissingResult(run.cell.name, f"trained with {told}") for run in runs if (told := _first_difference(run, wanted))
    ]
    if found and not partial:
        more = f" ({len(found)} such runs)" if len(found) > 1 else ""
        raise UserError(f"{found[0].cell}: {found[0].reason}{more}; run `dvc repro`, or give --partial")
    return found


def _first_difference(run: FinishedRun, grid_has: Callable[[str, str], dict[str, Any]]) -> str:
    """The first parameter that differs; empty where none does."""
    if run.cell.method == PRETRAINED or not run.config:
        return ""
    wanted, used = grid_has(run.cell.method, run.cell.data), _flatten_settings(run.config)
    if not load_method(run.cell.method).TRAINS:
        wanted, used = ({k: v for k, v in values.items() if not k.startswith("train.")} for values in (wanted, used))
    for key in sorted(wanted.keys() | used.keys()):
        if wanted.get(key) != used.get(key):
            return f"{key}={used.get(key)} where the grid has {wanted.get(key)}"
    return ""


def _grid_settings(params: sections.Params, method: str, data: str) -> dict[str, Any]:
    """What the grid asks of a method on a data set now, as config.yaml would have it."""
    config, train = grid.method_config(params, method, data)
    return _flatten_settings({"method": asdict(config), "train": asdict(train)})


def _flatten_settings(raw: dict[str, Any]) -> dict[str, Any]:
    values = flatten_keys({section: raw.get(section, {}) for section in SECTIONS})
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    return {key: value for key, value in values.items() if key.removeprefix("train.") not in RESOURCES}

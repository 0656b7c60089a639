"""Which cells of the grid are there with all their results, and what of the others is missing.

The pretrained model needs only its results.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from compclip.base.errors import UserError
from compclip.base.names import Name
from compclip.config.cell import PRETRAINED
from compclip.runs import folder, results
from compclip.runs.folder import Published
from compclip.runs.results import FinishedRun, Result

if TYPE_CHECKING:
    from compclip.config.cell import Cell


@dataclass(frozen=True)
class Missing:
    """A cell, or one result of a cell, that the grid asks for and nobody has published."""

    cell: str
    reason: str


def collect(
    cells: Iterable[Cell], benchmarks: Iterable[str], root: Path, partial: bool = False
) -> tuple[list[FinishedRun], list[Missing]]:
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


def read_cell(place: Published, benchmarks: list[str]) -> tuple[FinishedRun | None, list[Missing]]:
    """One cell's run (None where nothing of it can be shown) and what it lacks, with the reason."""
    cell, trained = place.cell, place.trained
    if not trained.path.is_dir() and not place.results.is_dir():
        return None, [Missing(cell.name, "no run directory")]
    lacks = [Missing(cell.name, f"no {name}") for name in _absent(place)]
    scored, failed = _results(place, benchmarks)
    lacks += [Missing(cell.name, reason) for reason in failed]
    try:
        facts = results.read_config(trained), results.read_curve(trained), results.read_environment(trained)
    except UserError as error:
        return None, [*lacks, Missing(cell.name, str(error))]
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
        path = folder.result(place.results, Name(name, "benchmark"))
        if not path.is_file():
            failed.append(f"no result of {name}")
            continue
        try:
            found[name] = results.read_result(path)
        except UserError as error:
            failed.append(str(error))
    return found, failed

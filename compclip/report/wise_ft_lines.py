"""WiSE-FT lines of the runs that params.yaml names -> summary columns at every alpha."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.config.cell import Cell
from compclip.report import escape
from compclip.report.report_figures import TradeoffPoint, Trajectory
from compclip.report.run_collection import MissingResult
from compclip.report.tables import Column, ResultTable, column_value
from compclip.runs.run_folder import Published


@dataclass(frozen=True)
class Mixture:
    """The model at one alpha: its metrics by benchmark/metric."""

    alpha: float
    metrics: dict[str, float]

    def number(self, benchmark: str, metric: str) -> float | None:
        """Return a metric's value; None where it was not evaluated."""
        return self.metrics.get(f"{benchmark}/{metric}")


@dataclass(frozen=True)
class WiseFtLine:
    """One run between the pretrained weights (alpha 0) and its own (alpha 1)."""

    cell: Cell
    mixtures: tuple[Mixture, ...]

    def at(self, alpha: float) -> Mixture:
        """Return the model at one of the line's alphas."""
        return next(m for m in self.mixtures if m.alpha == alpha)


def collect_lines(
    cells: Iterable[Cell], root: Path, partial: bool = False
) -> tuple[list[WiseFtLine], list[MissingResult]]:
    """Collect the lines of the cells, and the cells that have none, or a damaged one.

    Raises UserError for those unless `partial`.
    """
    paths = {cell: Published(root, cell).line for cell in cells}
    lines = []
    missing = [MissingResult(cell.name, "no WiSE-FT line") for cell, path in paths.items() if not path.is_file()]
    if missing and not partial:
        names = ", ".join(m.cell for m in missing)
        raise UserError(f"{root}: {names}: no WiSE-FT line; run `dvc repro`, or give --partial")
    for cell, path in paths.items():
        if path.is_file():
            try:
                lines.append(_read_line(cell, path))
            except UserError as error:
                if not partial:
                    raise
                missing.append(MissingResult(cell.name, str(error)))
    return lines, missing


def _read_line(cell: Cell, path: Path) -> WiseFtLine:
    raw = read_json(path)
    try:
        return WiseFtLine(cell, tuple(Mixture(point["alpha"], dict(point["metrics"])) for point in raw["points"]))
    except (KeyError, TypeError, ValueError) as error:
        fix = f"run `compclip wise_ft --cell {cell.name}` again"
        raise UserError(f"{path}: not a WiSE-FT file ({error!r}); {fix}") from error


def format_alpha(alpha: float) -> str:
    """Format the place of a mixture on its line."""
    return f"α {alpha:g}"


def build_trajectories(
    group: ResultTable,
    lines: Sequence[WiseFtLine],
    x: Column,
    y: Column,
    describe_place: Callable[[float], str] = format_alpha,
) -> list[Trajectory]:
    """Build the group's methods in the plane of two summary columns, means over seeds, in percent.

    A method whose lines lack a benchmark of theirs is left out. `describe_place` is said of a point of a line.
    """
    trajectories = []
    for colour, row in enumerate(group.rows):
        row_lines = [line for line in lines if line.cell.method == row.method and group.holds(line.cell)]
        if not row_lines:
            continue
        alphas = sorted(set.intersection(*({m.alpha for m in line.mixtures} for line in row_lines)))
        points = []
        for alpha in alphas:
            at_x, at_y = _mean_percent(row_lines, alpha, x), _mean_percent(row_lines, alpha, y)
            if at_x is not None and at_y is not None:
                points.append(TradeoffPoint(f"{row.method}, {describe_place(alpha)}", at_x, at_y))
        if points and len(points) == len(alphas):
            trajectories.append(Trajectory(row.method, colour, tuple(points)))
    return trajectories


def _mean_percent(lines: Sequence[WiseFtLine], alpha: float, column: Column) -> float | None:
    values = [v for line in lines if (v := column_value(line.at(alpha), column)) is not None]
    return 100 * float(np.mean(values)) if len(values) == len(lines) else None


def format_lines_csv(groups: Sequence[ResultTable], lines: Sequence[WiseFtLine]) -> str:
    """Run, alpha and the summary columns in percent; empty without lines."""
    names = list(dict.fromkeys(name for group in groups for name in group.summaries))
    rows = []
    for group in groups:
        columns = group.summaries
        for line in (line for line in lines if group.holds(line.cell)):
            for mixture in line.mixtures:
                numbers = [column_value(mixture, columns[n]) if n in columns else None for n in names]
                percents = ["" if v is None else f"{100 * v:.4f}" for v in numbers]
                rows.append([line.cell.name, f"{mixture.alpha:g}", *percents])
    return escape.format_csv([["run", "alpha", *names], *rows]) if rows else ""

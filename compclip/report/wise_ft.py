"""WiSE-FT lines of the runs that params.yaml names -> summary columns at every alpha."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.config.cell import Cell
from compclip.report import escape
from compclip.report.collect import Missing
from compclip.report.plots import Point, Trajectory
from compclip.report.tables import SUMMARY, Column, Group, value
from compclip.runs.folder import Published


@dataclass(frozen=True)
class Mixture:
    """The model at one alpha: its metrics by benchmark/metric."""

    alpha: float
    metrics: dict[str, float]

    def number(self, benchmark: str, metric: str) -> float | None:
        """A metric's value; None where it was not evaluated."""
        return self.metrics.get(f"{benchmark}/{metric}")


@dataclass(frozen=True)
class Line:
    """One run between the pretrained weights (alpha 0) and its own (alpha 1)."""

    cell: Cell
    mixtures: tuple[Mixture, ...]

    def at(self, alpha: float) -> Mixture:
        """The model at one of the line's alphas."""
        return next(m for m in self.mixtures if m.alpha == alpha)


def collect(cells: Iterable[Cell], root: Path, partial: bool = False) -> tuple[list[Line], list[Missing]]:
    """The lines of the cells, and the cells that have none, or a damaged one.

    Raises UserError for those unless `partial`.
    """
    paths = {cell: Published(root, cell).line for cell in cells}
    found, missing = [], [Missing(cell.name, "no WiSE-FT line") for cell, path in paths.items() if not path.is_file()]
    if missing and not partial:
        named = ", ".join(m.cell for m in missing)
        raise UserError(f"{root}: {named}: no WiSE-FT line; run `dvc repro`, or give --partial")
    for cell, path in ((cell, path) for cell, path in paths.items() if path.is_file()):
        try:
            found.append(_read(cell, path))
        except UserError as error:
            if not partial:
                raise
            missing.append(Missing(cell.name, str(error)))
    return found, missing


def _read(cell: Cell, path: Path) -> Line:
    raw = read_json(path)
    try:
        return Line(cell, tuple(_mixture(p) for p in raw["points"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(
            f"{path}: not a WiSE-FT file ({error!r}); run `python -m compclip wise_ft --cell {cell.name}` again"
        ) from error


def _mixture(raw: dict[str, Any]) -> Mixture:
    return Mixture(float(raw["alpha"]), {name: float(number) for name, number in raw["metrics"].items()})


def columns(group: Group) -> list[Column]:
    """The summary columns of a group."""
    return [c for c in group.columns if c.benchmark == SUMMARY]


def trajectories(group: Group, lines: Sequence[Line], x: Column, y: Column) -> list[Trajectory]:
    """The group's methods in the plane of two summary columns, means over seeds, in percent.

    A method whose lines lack a benchmark of theirs is left out.
    """
    found = []
    for colour, row in enumerate(group.rows):
        mine = [
            line
            for line in lines
            if (line.cell.method, line.cell.backbone, line.cell.data) == (row.method, group.backbone, group.data)
        ]
        alphas = sorted(set.intersection(*({m.alpha for m in line.mixtures} for line in mine))) if mine else []
        at = [(_mean(mine, alpha, x), _mean(mine, alpha, y)) for alpha in alphas]
        if at and not any(None in pair for pair in at):
            points = tuple(Point(f"{row.method}, α {alpha:g}", *pair) for alpha, pair in zip(alphas, at, strict=True))
            found.append(Trajectory(row.method, colour, points))
    return found


def _mean(lines: Sequence[Line], alpha: float, column: Column) -> float | None:
    values = [value(line.at(alpha), column) for line in lines]
    return None if None in values else 100 * float(np.mean(values))


def table_csv(groups: Sequence[Group], lines: Sequence[Line]) -> str:
    """Run, alpha and the summary columns in percent; empty without lines."""
    names = list(dict.fromkeys(c.metric for g in groups for c in columns(g)))
    rows = []
    for group in groups:
        shown = {c.metric: c for c in columns(group)}
        for line in (n for n in lines if (n.cell.backbone, n.cell.data) == (group.backbone, group.data)):
            for mixture in line.mixtures:
                numbers = [value(mixture, shown[n]) if n in shown else None for n in names]
                rows.append(
                    [line.cell.name, f"{mixture.alpha:g}", *("" if v is None else f"{100 * v:.4f}" for v in numbers)]
                )
    return escape.table_csv([["run", "alpha", *names], *rows]) if rows else ""

"""Models on a way, in the plane of summary columns: WiSE-FT lines between weights, and snapshots along training.

A training's curve begins at the pretrained model and ends at the end of the training, whichever checkpoint the row
shows. Numbers are of the items that the report shows; what was chosen was chosen on validation items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base.errors import UserError
from compclip.base.files import read_mapping, read_recorded
from compclip.config.cell import PRETRAINED, Cell
from compclip.config.sections import TEST, WHOLE
from compclip.report import run_details
from compclip.report.escape import format_csv
from compclip.report.report_figures import TradeoffPoint, Trajectory
from compclip.report.run_details import MissingResult
from compclip.report.tables import Column, ResultTable, RowName, column_value
from compclip.runs import run_folder
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import END, Published, SnapshotResults

# --- between the pretrained weights and a run's own


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


def collect_lines(
    cells: Iterable[Cell], root: Path, partial: bool = False
) -> tuple[list[WiseFtLine], list[MissingResult]]:
    """Collect the lines of the cells, and the cells that have none.

    Raises UserError for those unless `partial`.
    """
    lines = []
    missing = []
    for cell in cells:
        path = Published(root, cell).line
        if path.is_file():
            mixtures = [Mixture(point["alpha"], dict(point["metrics"])) for point in read_mapping(path)["points"]]
            lines.append(WiseFtLine(cell, tuple(mixtures)))
        else:
            missing.append(MissingResult(cell.name, "no WiSE-FT line"))
    if missing and not partial:
        names = ", ".join(m.cell for m in missing)
        raise UserError(f"{root}: {names}: no WiSE-FT line; run `compclip repro`, or give --partial")
    return lines, missing


def build_trajectories(
    group: ResultTable,
    lines: Sequence[WiseFtLine],
    x: Column,
    y: Column,
    describe_place: Callable[[float], str] = "α {:g}".format,
) -> list[Trajectory]:
    """Build the group's methods in the plane of two summary columns, means over seeds, in percent.

    A method whose lines lack a benchmark of theirs is left out. `describe_place` is said of a point of a line.
    """
    trajectories = []
    for colour, row in enumerate(group.rows):
        row_lines = [line for line in lines if line.cell.method == row.method and group.holds(line.cell)]
        if not row_lines:
            continue
        values_by_alpha: dict[float, list[tuple[float | None, float | None]]] = {}
        for line in row_lines:
            for mixture in line.mixtures:
                pair = (column_value(mixture, x), column_value(mixture, y))
                values_by_alpha.setdefault(mixture.alpha, []).append(pair)
        points = []
        for alpha, values in sorted(values_by_alpha.items()):
            if len(values) == len(row_lines):
                at_x, at_y = 100 * np.array(values, float).mean(axis=0)  # NaN of what was not measured
                points.append(TradeoffPoint(f"{row.method}, {describe_place(alpha)}", float(at_x), float(at_y)))
        if points and np.isfinite([(point.x, point.y) for point in points]).all():
            trajectories.append(Trajectory(row.method, colour, tuple(points)))
    return trajectories


def format_lines_csv(groups: Sequence[ResultTable], lines: Sequence[WiseFtLine]) -> str:
    """Run, alpha and the summary columns in percent; empty without lines."""
    points = []
    for line in lines:
        points += [(line.cell, mixture, [f"{mixture.alpha:g}"]) for mixture in line.mixtures]
    return _format_points(groups, ["run", "alpha"], points)


def _format_points(
    groups: Sequence[ResultTable], head: Sequence[str], points: Sequence[tuple[Cell, Mixture, list[Any]]]
) -> str:
    """Format a line a point: its run, its cells, and the summary columns in percent, as far as it has them."""
    names = dict.fromkeys(name for group in groups for name in group.summaries)
    rows = []
    for group in groups:
        for cell, mixture, cells in points:
            if not group.holds(cell):
                continue
            row = [cell.name, *cells]
            for name in names:
                value = column_value(mixture, group.summaries[name]) if name in group.summaries else None
                row.append("" if value is None else f"{100 * value:.4f}")
            rows.append(row)
    return format_csv([[*head, *names], *rows]) if rows else ""


# --- along training


@dataclass(frozen=True)
class TrainingCurve:
    """One run at shares of its training: its metrics, steps by share, the share that its row shows, and chosen by what.

    `values` are those of the column on validation items, by share; empty where the end is shown by default.
    """

    run: FinishedRun
    line: WiseFtLine
    steps: Mapping[float, int]
    row_share: float
    column: str
    values: Mapping[float, float]


def collect_curves(
    runs: Sequence[FinishedRun], benchmarks: Sequence[str], split: PictureSplit, root: Path, partial: bool = False
) -> tuple[list[TrainingCurve], list[MissingResult]]:
    """Collect the curves of runs that have snapshots, of the items of `split`, and what is missing.

    Raises UserError naming the first missing one unless `partial`.
    """
    curves = list[TrainingCurve]()
    missing = list[MissingResult]()
    for run in runs:
        if not (run.config.get("train") or {}).get("snapshots"):
            continue
        published = Published(root, run.cell).snapshots
        if published.record.is_file():
            curves.append(_read_curve(run, benchmarks, split, published))
        elif partial:
            missing.append(MissingResult(run.cell.name, "no snapshots"))
        else:
            raise UserError(f"{published.record}: no snapshots; run `compclip repro evaluate@{run.cell.method}`")
    return curves, missing


def _read_curve(
    run: FinishedRun, benchmarks: Sequence[str], split: PictureSplit, published: SnapshotResults
) -> TrainingCurve:
    raw = read_mapping(published.record)
    steps = {float(share): step for share, step in raw["steps"].items()}
    values = {float(share): value for share, value in raw["values"].items()}
    mixtures = [Mixture(share, _read_metrics(published.at(share), benchmarks, split)) for share in sorted(steps)]
    line = WiseFtLine(run.cell, tuple(mixtures))
    return TrainingCurve(run, line, steps, float(raw["shown"]), raw["column"], values)


def _read_metrics(folder: Path, benchmarks: Sequence[str], split: PictureSplit) -> dict[str, float]:
    """Read "benchmark/metric": value; of a split from the outcomes of its items."""
    if split.name == WHOLE:
        return read_recorded(folder / run_folder.SUMMARY)
    results = run_details.read_results(folder, [*benchmarks, *split.authors.values()])
    return _flatten(split.select_results(results))


def _flatten(results: Mapping[str, Result]) -> dict[str, float]:
    return {f"{name}/{metric}": value for name, result in results.items() for metric, value in result.metrics.items()}


# --- which checkpoint a row shows


def format_share(share: float) -> str:
    """Format a share of training as people read it."""
    return "the end" if share == END else f"{100 * share:g} %"


def describe_checkpoints(curves: Iterable[TrainingCurve]) -> dict[RowName, str]:
    """Describe for each row whose checkpoint was chosen which one it shows."""
    by_row: dict[RowName, list[TrainingCurve]] = {}
    for curve in curves:
        if curve.column:
            by_row.setdefault((curve.run.cell.method, curve.run.cell.backbone, curve.run.cell.data), []).append(curve)
    texts = {}
    for row, row_curves in by_row.items():
        checkpoints = ", ".join(f"seed {c.run.cell.seed} at {format_share(c.row_share)}" for c in row_curves)
        count = len(row_curves[0].steps)
        column = row_curves[0].column
        texts[row] = f"shows the best of {count} checkpoints by {column} on validation items: {checkpoints}"
    return texts


def find_leaks(checkpoints: Mapping[RowName, str], report_split: str) -> dict[RowName, str]:
    """Describe the rows whose checkpoint was chosen by items that the report shows; none where it shows test items."""
    if report_split == TEST:
        return {}
    return {row: f"{text}; these items are among those shown" for row, text in checkpoints.items()}


# --- curves


def build_curves(group: ResultTable, curves: Sequence[TrainingCurve], x: Column, y: Column) -> list[Trajectory]:
    """Build a line a method in the plane of two columns, from the pretrained model on; means over seeds, in percent.

    Methods that are one training, and differ in what is shown of it, have one line.
    """
    if PRETRAINED not in group.by_method:
        return []
    start = Mixture(0.0, _flatten(group.by_method[PRETRAINED].runs[0].results))
    curves_of: dict[str, list[TrainingCurve]] = {row.method: [] for row in group.rows}
    for curve in curves:
        if group.holds(curve.run.cell):
            curves_of[curve.run.cell.method].append(curve)
    trainings: dict[tuple[str, ...], list[TrainingCurve]] = {}
    for row_curves in curves_of.values():
        run_keys = sorted(str(curve.run.environment.get("run_key") or curve.run.cell.name) for curve in row_curves)
        trainings.setdefault(tuple(run_keys), row_curves)
    lines = []
    for curve in chain.from_iterable(trainings.values()):
        lines.append(replace(curve.line, mixtures=(start, *curve.line.mixtures)))
    return build_trajectories(group, lines, x, y, format_share)


def format_curves_csv(groups: Sequence[ResultTable], curves: Sequence[TrainingCurve]) -> str:
    """Format a line a run and share: its step, whether it is shown, the choice's value, summary columns in percent."""
    points = []
    for curve in curves:
        for mixture in curve.line.mixtures:
            share = mixture.alpha
            value = curve.values.get(share)
            cells = [f"{share:g}", curve.steps[share], int(share == curve.row_share), curve.column]
            points.append((curve.run.cell, mixture, [*cells, "" if value is None else f"{value:.6g}"]))
    return _format_points(groups, ["run", "share", "step", "shown", "chosen_by", "validation_value"], points)

"""Training loss and held-out loss along each training, and the runs that overfit.

A run overfits where its held-out loss ends above its lowest by more than noise, while its training loss has fallen
since then. Noise is 1.96 standard errors of the difference, as if the two points had other pictures: they have the
same, so that the rule says it rather too late. Training loss is the mean of the steps logged since the point before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, hypot
from typing import Any

from compclip.base.messages import format_count
from compclip.report.tables import MethodRow, ResultTable
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import VALIDATION

STANDARD_ERRORS = 1.96  # of a difference: beyond it is no noise
WAYS = ("i2t", "t2i")


@dataclass(frozen=True)
class ValidatedPoint:
    """A step after which held-out pictures were measured: their loss with its standard error, and R@1 of both ways."""

    step: int
    training_loss: float
    loss: float
    error: float
    recall: float


def list_points(run: FinishedRun) -> list[ValidatedPoint]:
    """List a run's points in order; none of a run that was not validated."""
    points = []
    losses: list[float] = []
    for row in run.curve:
        losses.append(row.get("loss", 0.0))
        if f"{VALIDATION}loss" in row:
            recall = fsum(row[f"{VALIDATION}{way}_recall_at_1"] for way in WAYS) / len(WAYS)
            numbers = row[f"{VALIDATION}loss"], row[f"{VALIDATION}loss_error"], recall
            points.append(ValidatedPoint(row["step"], fsum(losses) / len(losses), *numbers))
            losses = []
    return points


def find_overfitting(points: Sequence[ValidatedPoint]) -> ValidatedPoint | None:
    """Return the point from which a run overfits, the one with the lowest held-out loss; None where it does not."""
    if not points:
        return None
    end = points[-1]
    best = min(points, key=lambda point: point.loss)
    is_worse = end.loss - best.loss > STANDARD_ERRORS * hypot(end.error, best.error)
    return best if is_worse and end.training_loss < best.training_loss else None


def describe_row(row: MethodRow) -> str:
    """Say which runs of a row overfit, from when on, and their mean numbers; nothing where none does."""
    curves = {run.cell.seed: points for run in row.runs if find_overfitting(points := list_points(run))}
    if not curves:
        return ""
    starts = [best for points in curves.values() if (best := find_overfitting(points))]
    best = average(starts)
    end = average([points[-1] for points in curves.values()])
    return (
        f"overfits with seed{'s' if len(curves) > 1 else ''} {', '.join(map(str, curves))} from step "
        f"{min(point.step for point in starts)} on: held-out loss {best.loss:.2f} to {end.loss:.2f}, "
        f"R@1 {100 * best.recall:.1f} to {100 * end.recall:.1f} %, training loss {best.training_loss:.2f} to "
        f"{end.training_loss:.2f}"
    )


def describe_table(group: ResultTable) -> list[str]:
    """Say which rows of a table overfit."""
    return [f"{row.method} {text}" for row in group.rows if (text := describe_row(row))]


def describe_finding(groups: Sequence[ResultTable]) -> str:
    """Say how many of the validated runs overfit; nothing where none was validated."""
    curves = [points for group in groups for run in group.runs if (points := list_points(run))]
    overfitting = sum(find_overfitting(points) is not None for points in curves)
    verb = "overfits" if len(curves) == 1 else "overfit"
    return f"{overfitting or 'none'} of {format_count(len(curves), 'run')} {verb}" if curves else ""


def describe_pictures(group: ResultTable) -> list[str]:
    """Say which pictures were measured, in the words of the runs' environment.json."""
    facts: list[dict[str, Any]] = [run.environment.get("validation") or {} for run in group.runs]
    sets = {(fact["benchmark"], fact["pictures"]) for fact in facts if fact.get("pictures")}
    return [f"{format_count(count, 'picture')} of {name}" for name, count in sorted(sets)]


def average_points(row: MethodRow) -> list[ValidatedPoint]:
    """Average the points of a row's runs, step by step, where all validated runs have the step."""
    curves = [points for run in row.runs if (points := list_points(run))]
    by_step: dict[int, list[ValidatedPoint]] = {}
    for points in curves:
        for point in points:
            by_step.setdefault(point.step, []).append(point)
    return [average(points) for _, points in sorted(by_step.items()) if len(points) == len(curves)]


def average(points: Sequence[ValidatedPoint]) -> ValidatedPoint:
    """Average points field by field, the step of the first."""
    means = {}
    for name in ("training_loss", "loss", "error", "recall"):
        means[name] = fsum(getattr(point, name) for point in points) / len(points)
    return ValidatedPoint(points[0].step, **means)

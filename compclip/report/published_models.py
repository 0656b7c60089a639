"""Where a run stands among published models (experiments/published/models/*.csv): percentile and neighbours by column.

A file has a line a model: model, weights, family, and the report's columns, in percent; an empty place is not known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from compclip.base.errors import UserError
from compclip.report.published_numbers import read_rows
from compclip.report.tables import ResultTable

FOLDER = "models"
FIELDS = ("model", "weights", "family")


@dataclass(frozen=True)
class PublishedModel:
    """A published model: its name, and its values by column, in percent."""

    name: str
    values: dict[str, float]


@dataclass(frozen=True)
class ModelPercentile:
    """Where a value stands in a column: the percent of models below it, and the nearest on either side."""

    column: str
    value: float
    percentile: float
    models: int
    above: str  # "" where none is
    below: str


@dataclass(frozen=True)
class Standing:
    """A method's percentiles in one table of the report."""

    group: str
    method: str
    percentiles: tuple[ModelPercentile, ...]

    @property
    def median(self) -> float:
        """The median of its percentiles."""
        return median(percentile.percentile for percentile in self.percentiles)


def read_models(folder: Path) -> list[PublishedModel]:
    """Read every model of the folder's CSV files. Raises UserError naming file and line of a bad one."""
    models = []
    for where, row in read_rows(folder, FIELDS):
        values: dict[str, float] = {}
        for column in (name for name in row if name not in (*FIELDS, None)):
            text = (row[column] or "").strip()
            try:
                value = float(text) if text else math.nan
            except ValueError:
                value = math.inf
            if not (0 <= value <= 100 or math.isnan(value)):
                raise UserError(f"{where}: {column}={text[:40]!r}: must be from 0 to 100, or empty")
            values |= {} if math.isnan(value) else {column: value}
        models.append(PublishedModel(f"{row['model']}, {row['weights']}", values))
    return models


def compute_percentile(column: str, value: float, models: Sequence[PublishedModel]) -> ModelPercentile | None:
    """Compute where a value, in percent, stands in a column; None where no model has it. Equals count half."""
    values = sorted((m.values[column], m.name) for m in models if column in m.values)
    if not values:
        return None
    under, over = [k for k in values if k[0] < value], [k for k in values if k[0] > value]
    equal = len(values) - len(under) - len(over)
    below = 100 * (len(under) + equal / 2) / len(values)
    next_above, next_below = ("".join(f"{name} ({v:.1f})" for v, name in side) for side in (over[:1], under[-1:]))
    return ModelPercentile(column, value, below, len(values), next_above, next_below)


def compute_standings(group: ResultTable, models: Sequence[PublishedModel]) -> list[Standing]:
    """Compute the standing of every method of a table that has a column of theirs."""
    standings = []
    for row in group.rows:
        cells = [(c, s) for c, s in zip(group.columns, row.statistics, strict=True) if s and not c.score]
        percentiles = [compute_percentile(c.name, s.mean * c.scale, models) for c, s in cells]
        if comparable := tuple(percentile for percentile in percentiles if percentile):
            standings.append(Standing(group.name, row.method, comparable))
    return standings

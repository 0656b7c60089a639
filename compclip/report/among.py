"""Where a run stands among published models (experiments/published/models/*.csv): percentile and neighbours by column.

A file has a line a model: model, weights, family, and the report's columns, in percent; an empty place is not known.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_text
from compclip.report.tables import Group, Row

FOLDER = "models"
FIELDS = ("model", "weights", "family")


@dataclass(frozen=True)
class Model:
    """A published model: its name, and its values by column, in percent."""

    name: str
    values: dict[str, float]


@dataclass(frozen=True)
class Percentile:
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
    percentiles: tuple[Percentile, ...]

    @property
    def median(self) -> float:
        """Of its percentiles."""
        ordered = sorted(found.percentile for found in self.percentiles)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def read(folder: Path) -> list[Model]:
    """Every model of the folder's CSV files. Raises UserError naming file and line of a bad one."""
    return [model for path in sorted(folder.glob("*.csv")) for model in _file(path)]


def _file(path: Path) -> list[Model]:
    rows = csv.DictReader(read_text(path).splitlines())
    names = rows.fieldnames or ()
    if lacking := [field for field in FIELDS if field not in names]:
        raise UserError(f"{path}: no column {lacking[0]!r}; the first line must name {', '.join(FIELDS)} and columns")
    columns = [name for name in names if name not in FIELDS]
    return [_model(path, line, row, columns) for line, row in enumerate(rows, 2)]


def _model(path: Path, line: int, row: dict[str, str], columns: Sequence[str]) -> Model:
    values = {}
    for column in columns:
        text = (row[column] or "").strip()
        try:
            value = float(text) if text else math.nan
        except ValueError:
            value = math.inf
        if not (0 <= value <= 100 or math.isnan(value)):
            raise UserError(f"{path}: line {line}: {column}={text[:40]!r}: must be from 0 to 100, or empty")
        values |= {} if math.isnan(value) else {column: value}
    return Model(f"{row['model']}, {row['weights']}", values)


def percentile(column: str, value: float, models: Sequence[Model]) -> Percentile | None:
    """Where a value, in percent, stands in a column; None where no model has it. Equals count half."""
    known = sorted((m.values[column], m.name) for m in models if column in m.values)
    if not known:
        return None
    under, over = [k for k in known if k[0] < value], [k for k in known if k[0] > value]
    equal = len(known) - len(under) - len(over)
    below = 100 * (len(under) + equal / 2) / len(known)
    return Percentile(column, value, below, len(known), _named(over[:1]), _named(under[-1:]))


def _named(found: Sequence[tuple[float, str]]) -> str:
    return "".join(f"{name} ({value:.1f})" for value, name in found)


def standings(group: Group, models: Sequence[Model]) -> list[Standing]:
    """Every method of a table that has a column of theirs."""
    found = [Standing(group.name, row.method, tuple(_percentiles(row, group, models))) for row in group.rows]
    return [standing for standing in found if standing.percentiles]


def _percentiles(row: Row, group: Group, models: Sequence[Model]) -> list[Percentile]:
    cells = zip(group.columns, row.statistics, strict=True)
    made = [percentile(c.name, s.mean * c.scale, models) for c, s in cells if s is not None and not c.score]
    return [found for found in made if found]

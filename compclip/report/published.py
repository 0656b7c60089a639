"""The papers' published numbers (experiments/published/*.csv) beside ours: same method, metric, backbone, data.

Columns: paper, table, row, method, backbone, data, benchmark, metric, value, unit; values as printed. A row without a
method is a model that we do not train: it is kept for the sums and left out of the comparison.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_text
from compclip.config.cell import PRETRAINED
from compclip.report.formats import number
from compclip.report.tables import Column, Group, Row, Statistic

FIELDS = ("paper", "table", "row", "method", "backbone", "data", "benchmark", "metric", "value", "unit")
UNITS = ("percent", "score")  # a score is a cosine
TOLERANCE = 0.5  # percentage points between two measurements of the same weights; their printed digits are 0.1
RELEASED = "released."  # what others' checkpoints are called in a grid
KINDS = {  # endings of the printed columns whose mean stands for a summary column that the table does not print
    "summary/ZS": ("/top_1",),
    "summary/I2T": ("/i2t_recall_at_1", "/i2t_recall_at_5"),
    "summary/T2I": ("/t2i_recall_at_1", "/t2i_recall_at_5"),
}


@dataclass(frozen=True)
class Number:
    """One printed number of a paper, `value` as it stands there, in `unit`."""

    paper: str
    table: str
    row: str
    method: str
    backbone: str
    data: str
    benchmark: str
    metric: str
    value: str
    unit: str = "percent"

    @property
    def column(self) -> str:
        """The report's column that it belongs to."""
        return f"{self.benchmark}/{self.metric}"

    @property
    def model(self) -> tuple[str, str, str, str]:
        """Which row of its table: row, method, backbone, data."""
        return self.row, self.method, self.backbone, self.data


@dataclass(frozen=True)
class Line:
    """One row of the comparison: a paper's, or ours below it; changes are against the same table's pretrained row."""

    source: str
    label: str
    ours: bool
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """A paper's table: its columns that we measure too, its rows and ours method by method."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]


def read(folder: Path) -> list[Number]:
    """All numbers of the folder's CSV files. Raises UserError naming file and line of a bad one."""
    return [n for path in sorted(folder.glob("*.csv")) for n in _file(path)]


def _file(path: Path) -> list[Number]:
    rows = csv.DictReader(read_text(path).splitlines())
    if lacking := [f for f in FIELDS if f not in (rows.fieldnames or ())]:
        raise UserError(f"{path}: no column {lacking[0]!r}; the first line must name {', '.join(FIELDS)}")
    return [_number(path, line, row) for line, row in enumerate(rows, 2)]


def _number(path: Path, line: int, row: dict[str, str]) -> Number:
    fields = {f: (row[f] or "").strip() for f in FIELDS}
    try:
        float(fields["value"])
    except ValueError as error:
        raise UserError(f"{path}: line {line}: value={row['value']!r} is not a number; write it as printed") from error
    if fields["unit"] not in UNITS:
        raise UserError(f"{path}: line {line}: unit={row['unit']!r}: must be {' or '.join(UNITS)}")
    return Number(**fields)


def rows(numbers: Sequence[Number]) -> dict[tuple[str, str, str, str], dict[str, Number]]:
    """Each row of one table, by its model: column -> number."""
    found: dict[tuple[str, str, str, str], dict[str, Number]] = {}
    for n in numbers:
        found.setdefault(n.model, {})[n.column] = n
    return found


def differences(numbers: Sequence[Number], paper: str, table: str, left: str, right: str, column: str) -> list[float]:
    """left - right in a paper's table, as printed, once for each pair of rows of one backbone and data set.

    The pretrained model fits every data set; where `table` has no row of `right`, the paper's other tables serve. A
    method that the paper did not train is its authors' checkpoint, `released.<method>`.
    """
    mine = [n for n in numbers if n.paper == paper]
    trained = {n.method for n in mine}
    left, right = (name if name in trained else f"{RELEASED}{name}" for name in (left, right))
    here = rows([n for n in mine if n.table == table])
    base = here if any(model[1] == right for model in here) else rows(mine)
    pairs = [
        (a, b) for m, a in here.items() for n, b in base.items()
        if (m[1], n[1]) == (left, right) and m[2] == n[2] and (m[3] == n[3] or right == PRETRAINED)
    ]  # fmt: skip
    found = [(_value(a, column), _value(b, column)) for a, b in pairs]
    return [round(a - b, 4) for a, b in found if a is not None and b is not None]


def column(numbers: Sequence[Number], name: str) -> Column:
    """The column of that name in the unit in which the papers print it: percent, or scores."""
    printed = next((n for n in numbers if n.column == name), None)
    return Column(*name.split("/", 1), score=printed is not None and printed.unit == "score")


def _value(row: dict[str, Number], column: str) -> float | None:
    if column in row:
        return float(row[column].value)
    for ending in KINDS.get(column, ()):
        if like := [float(n.value) for name, n in row.items() if name.endswith(ending)]:
            return sum(like) / len(like)
    return None


def compare(numbers: Sequence[Number], group: Group) -> list[Comparison]:
    """One comparison for each paper's table that has a method and a metric of the group; others are left out."""
    numbers = comparable(numbers, group.backbone, group.data)
    tables = dict.fromkeys((n.paper, n.table) for n in numbers)
    found = [_compare(f"{p}, {t}", [n for n in numbers if (n.paper, n.table) == (p, t)], group) for p, t in tables]
    return [c for c in found if c.columns and any(line.ours for line in c.lines)]


def comparable(numbers: Sequence[Number], backbone: str, data: str) -> list[Number]:
    """The numbers on this backbone and this data, by our names for them; all where no paper has such a one.

    `vit_b_16_siglip` is our name for "ViT-B/16 SigLIP". Numbers without a data set, as the pretrained model's, stay.
    """
    same = [n for n in numbers if slug(n.backbone) == backbone] or list(numbers)
    named = any(slug(n.data) == data for n in same)
    return [n for n in same if not named or not n.data or slug(n.data) == data]


def _compare(title: str, numbers: Sequence[Number], group: Group) -> Comparison:
    ours = {c.name for c in group.columns}
    names = tuple(n for n in dict.fromkeys(n.column for n in numbers) if n in ours)
    kept = [n for n in numbers if n.column in names]
    lines: list[Line] = []
    for method in sorted(dict.fromkeys(n.method for n in kept), key=lambda m: m != PRETRAINED):
        # a variant of ours (`fsc_clip.lora`) is matched only by a published row of that very name
        mine = [_ours(row, group, names, kept) for row in group.rows if method in _methods(row.method, kept)]
        lines += [*_printed(method, kept, names), *mine] if mine else []
    return Comparison(title, names, tuple(lines))


def _methods(ours: str, numbers: Sequence[Number]) -> set[str]:
    """The published methods that a row of ours stands for, among those of a table."""
    return {n.method for n in _of(ours, numbers)}


def _of(ours: str, numbers: Sequence[Number]) -> list[Number]:
    """The numbers of a row of ours: those of its name; of a released checkpoint also its authors' own, by its name.

    `released.fsc_clip_lora` is `fsc_clip.lora` on whatever data, `released.clic_laion` is `clic` on LAION.
    """
    if exact := [n for n in numbers if n.method == ours]:
        return exact
    name = ours.removeprefix(RELEASED) if ours.startswith(RELEASED) else None
    return [n for n in numbers if n.method and name in (slug(n.method), slug(f"{n.method} {n.data}"))]


def slug(printed: str) -> str:
    """A paper's name of a backbone or data set as a grid's files have it: in lower case, joined by underscores."""
    return "_".join(re.findall(r"[a-z0-9]+", printed.lower()))


def _printed(method: str, numbers: Sequence[Number], names: Sequence[str]) -> list[Line]:
    every = rows(numbers)
    bases = {model[2]: row for model, row in every.items() if model[1] == PRETRAINED}
    return [
        _printed_line(model, row, {} if method == PRETRAINED else bases.get(model[2], {}), names)
        for model, row in every.items() if model[1] == method
    ]  # fmt: skip


def _printed_line(
    model: tuple[str, str, str, str], row: dict[str, Number], base: dict[str, Number], names: Sequence[str]
) -> Line:
    label, method, backbone, data = model
    cells = tuple(_cell(row.get(n), base.get(n)) for n in names)
    return Line(f"{label}: {backbone}, {data}" if data else f"{label}: {backbone}", method, False, cells)


def _cell(found: Number | None, base: Number | None) -> str:
    if found is None:
        return "–"
    if base is None:
        return found.value
    digits = len(found.value.partition(".")[2])
    return f"{found.value} ({float(found.value) - float(base.value):+.{digits}f})".replace("-", "−")


def _ours(row: Row, group: Group, names: Sequence[str], numbers: Sequence[Number]) -> Line:
    found = {c.name: (c, e) for c, e in zip(group.columns, row.statistics, strict=True)}
    same = _of(row.method, numbers) if row.method == PRETRAINED or row.method.startswith(RELEASED) else []
    printed = {n: [float(s.value) for s in same if s.column == n and _here(s, group)] for n in names}
    cells = tuple(_our_cell(*found[n], printed[n]) for n in names)
    return Line(f"ours: {group.backbone}, {group.data}", row.method, True, cells)


def _here(found: Number, group: Group) -> bool:
    """Whether a number is of this group's backbone, and not one that is shown for want of any."""
    return slug(found.backbone) == group.backbone


def _our_cell(column: Column, found: Statistic | None, printed: Sequence[float] = ()) -> str:
    """Our number; `printed` are those of the same weights."""
    if found is None:
        return "–"
    change = "" if found.change is None else f" ({number(found.change, column, sign=True)})"
    apart = min((abs(found.mean * column.scale - value) for value in printed), default=0.0)
    limit = TOLERANCE * column.scale / 100 + 1e-9
    return number(found.mean, column) + change + (" ≠" if apart > limit else "")

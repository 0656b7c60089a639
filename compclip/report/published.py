"""The papers' published numbers (experiments/published/*.csv) beside ours, matched by method and metric.

Columns: paper, table, row, method, backbone, data, benchmark, metric, value; values in percent as printed.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compclip.errors import UserError
from compclip.files import read_text
from compclip.report.collect import PRETRAINED
from compclip.report.formats import number
from compclip.report.tables import Column, Entry, Group, Row

FIELDS = ("paper", "table", "row", "method", "backbone", "data", "benchmark", "metric", "value")


@dataclass(frozen=True)
class Number:
    """One printed number of a paper, in percent."""

    paper: str
    table: str
    row: str
    method: str
    backbone: str
    data: str
    benchmark: str
    metric: str
    value: float


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
    try:
        return Number(*(row[f].strip() for f in FIELDS[:-1]), float(row["value"]))
    except (ValueError, AttributeError) as error:
        raise UserError(f"{path}: line {line}: value={row['value']!r} is not a number; write it as printed") from error


def compare(numbers: Sequence[Number], group: Group) -> list[Comparison]:
    """One comparison for each paper's table that has a method and a metric of the group; others are left out."""
    tables = dict.fromkeys((n.paper, n.table) for n in numbers)
    found = [_compare(f"{p}, {t}", [n for n in numbers if (n.paper, n.table) == (p, t)], group) for p, t in tables]
    return [c for c in found if c.columns and any(line.ours for line in c.lines)]


def _compare(title: str, numbers: Sequence[Number], group: Group) -> Comparison:
    ours = {c.name for c in group.columns}
    names = tuple(n for n in dict.fromkeys(f"{n.benchmark}/{n.metric}" for n in numbers) if n in ours)
    kept = [n for n in numbers if f"{n.benchmark}/{n.metric}" in names]
    lines: list[Line] = []
    for method in sorted(dict.fromkeys(n.method for n in kept), key=lambda m: m != PRETRAINED):
        # a variant of ours (`fsc_clip.lora`) is matched only by a published row of that very name
        mine = [_ours(row, group, names) for row in group.rows if row.method == method]
        lines += [*_printed(method, kept, names), *mine] if mine else []
    return Comparison(title, names, tuple(lines))


def _printed(method: str, numbers: Sequence[Number], names: Sequence[str]) -> list[Line]:
    rows = dict.fromkeys((n.row, n.backbone, n.data) for n in numbers if n.method == method)
    return [_printed_line(method, key, numbers, names) for key in rows]


def _printed_line(method: str, key: tuple[str, str, str], numbers: Sequence[Number], names: Sequence[str]) -> Line:
    row, backbone, data = key
    values = {f"{n.benchmark}/{n.metric}": n.value for n in numbers if (n.row, n.backbone, n.data) == key}
    base = {
        f"{n.benchmark}/{n.metric}": n.value for n in numbers if n.method == PRETRAINED and n.backbone == backbone
    }
    cells = tuple(_cell(values.get(n), None if method == PRETRAINED else base.get(n)) for n in names)
    return Line(f"{row}: {backbone}, {data}" if data else f"{row}: {backbone}", method, False, cells)


def _cell(value: float | None, base: float | None) -> str:
    if value is None:
        return "–"
    change = "" if base is None else f" ({value - base:+.1f})".replace("-", "−")
    return f"{value:.1f}{change}"


def _ours(row: Row, group: Group, names: Sequence[str]) -> Line:
    found = {c.name: (c, e) for c, e in zip(group.columns, row.entries, strict=True)}
    return Line(f"ours: {group.backbone}, {group.data}", row.method, True, tuple(_our_cell(*found[n]) for n in names))


def _our_cell(column: Column, entry: Entry | None) -> str:
    if entry is None:
        return "–"
    change = "" if entry.change is None else f" ({number(entry.change, column, sign=True)})"
    return number(entry.mean, column) + change

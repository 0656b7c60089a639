"""A table of the report as the page's template lays it out: head, columns, and cells with their texts and marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from compclip.report import crossed_intervals, report_figures, shared_pictures, table_heads
from compclip.report.shared_pictures import SharedPictures
from compclip.report.statistics import Interval
from compclip.report.table_formats import VERDICT, format_interval, format_number, span_benchmarks
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic

RANK = {0: "", 1: "best", 2: "second"}
MARK = {1: "▲", -1: "▼", 0: ""}


@dataclass(frozen=True)
class TableCell:
    """A number as the table shows it; `key` sorts."""

    text: str
    small: str
    css: str
    mark: str
    title: str
    key: str
    figure: str = ""
    basis: str = ""


EMPTY = TableCell("–", "", "none", "", "no result", "")


def layout_means(group: ResultTable, shared: SharedPictures | None = None) -> dict[str, Any]:
    """Lay out a table of means: header spans, columns, and rows of shown numbers.

    A mark at benchmarks that were seen.
    """
    table, shared = _layout_table(group, group.rows, _make_mean_cell), shared or {}
    notes = [
        f"{shared_pictures.MARK} {note}" for note in shared_pictures.describe_overlaps(group, shared)
    ] + table_heads.describe_marks(group)
    return table | {"seen": dict.fromkeys(shared, shared_pictures.MARK), "notes": notes}


def layout_differences(group: ResultTable) -> dict[str, Any]:
    """Lay out a table of differences with their intervals; rows without a difference are left out."""
    rows = [row for row in group.rows if any(e and e.change is not None for e in row.statistics)]
    limits = [_axis_limit([row.statistics[i] for row in rows]) for i in range(len(group.columns))]
    return _layout_table(group, rows, lambda e, c: _make_difference_cell(e, c, limits[group.columns.index(c)]))


def _layout_table(
    group: ResultTable, rows: Sequence[MethodRow], show: Callable[[Statistic | None, Column], TableCell]
) -> dict[str, Any]:
    lines = [(r.method, r.seeds, [show(e, c) for e, c in zip(r.statistics, group.columns, strict=True)]) for r in rows]
    return {
        "name": group.name,
        "rows": lines,
        "labels": {row.method: table_heads.row_label(row, group) for row in rows},
        "notes": [],
        "spans": span_benchmarks(group.columns),
        "columns": group.columns,
        "starts": {i for i, c in enumerate(group.columns) if i and group.columns[i - 1].benchmark != c.benchmark},
        "marks": table_heads.partial_marks(group),
        "backbone": table_heads.describe_backbone(group),
        "records": table_heads.describe_records(group),
        "scored": table_heads.benchmark_coverage(group),
        "seen": {},
    }


def _make_mean_cell(statistic: Statistic | None, column: Column) -> TableCell:
    if statistic is None:
        return EMPTY
    small = "" if statistic.std is None else "±" + format_number(statistic.std, column)
    title = f"{column.name}: {statistic.mean:.4f}, {statistic.seeds} seed{'s' * (statistic.seeds > 1)}"
    css = f"{RANK[statistic.rank]} {VERDICT[statistic.verdict]}".strip()
    return TableCell(
        format_number(statistic.mean, column), small, css, MARK[statistic.verdict], title, f"{statistic.mean:.6f}"
    )


def _axis_limit(column: Sequence[Statistic | None]) -> float:
    ends = [abs(v) for e in column if e and e.difference for v in (e.difference.low, e.difference.high)]
    return max(ends, default=0.0) or 1.0


def _make_difference_cell(statistic: Statistic | None, column: Column, limit: float) -> TableCell:
    if statistic is None or statistic.change is None:
        return EMPTY
    text, key = format_number(statistic.change, column, sign=True), f"{statistic.change:.6f}"
    gap = statistic.difference
    if gap is None:
        return TableCell(text, "no items", "", "", "the benchmark keeps no items of this metric", key)
    figure = Markup(report_figures.draw_interval(gap.low, gap.high, gap.estimate, limit, statistic.verdict))
    css, mark = VERDICT[statistic.verdict], MARK[statistic.verdict]
    return TableCell(
        text,
        format_interval(gap, column),
        css,
        mark,
        _describe_basis(statistic, gap),
        key,
        figure,
        crossed_intervals.describe_basis(statistic.basis),
    )


def _describe_basis(statistic: Statistic, gap: Interval) -> str:
    """Describe how many pairs an interval rests on, and what it is over."""
    pairs = f"{gap.items} item pairs"
    return (
        f"over {statistic.basis}: {statistic.seeds} seed{'s' * (statistic.seeds > 1)}, {pairs}"
        if statistic.basis
        else pairs
    )

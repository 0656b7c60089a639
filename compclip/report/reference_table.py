"""The differences to the reference as Markdown, CSV and LaTeX: the numbers and marks of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compclip.report import completeness, crossed, escape
from compclip.report.escape import md, tex
from compclip.report.formats import VERDICT, between, headings, latex_table, number, plain
from compclip.report.tables import Column, Group, Row, Statistic

MARK = {1: " ▲", -1: " ▼", 0: ""}
FIELDS = (
    "backbone", "data", "method", "reference", "benchmark", "metric", "better", "seeds", "difference", "low", "high",
    "over", "items", "verdict",
)  # fmt: skip
LEGEND = (
    "Row minus {}, over the seeds of both, with its 95 % interval over seeds and items together, both paired; ▲ ▼ "
    "better or worse where it excludes 0. Where it is over less it says so: items alone, of one seed, or seeds alone, "
    "where a metric keeps no items."
)


def markdown(groups: Sequence[Group], method: str) -> str:
    """A table for each group in Markdown; empty without rows."""
    return "".join(_markdown_table(group, method) for group in groups if group.rows)


def _markdown_table(group: Group, method: str) -> str:
    head = ["method", "seeds", *headings(group)]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *(_markdown_row(row, group) for row in group.rows)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"\n## Difference to {md(method)}: {md(group.name)}\n\n{LEGEND.format(md(method))}\n\n{table}\n"


def _markdown_row(row: Row, group: Group) -> list[str]:
    cells = [_markdown_cell(e, c) for e, c in zip(row.statistics, group.columns, strict=True)]
    return [md(completeness.label(row, group)), str(row.seeds), *cells]


def _markdown_cell(found: Statistic | None, column: Column) -> str:
    if found is None:
        return "–"
    return f"{number(found.change, column, sign=True)} {_interval(found, column)}".rstrip() + MARK[found.verdict]


def _interval(found: Statistic, column: Column) -> str:
    """The ends, and what the interval is over where that is less than seeds and items; empty without one."""
    return f"{between(found.difference, column)} {crossed.less(found.over)}".rstrip() if found.difference else ""


def table_csv(groups: Sequence[Group], method: str) -> str:
    """One line for each method and column, in the metrics' own unit; the head alone without rows."""
    lines = [
        _csv_line(group, row.method, method, column, found)
        for group in groups
        for row in group.rows
        for column, found in zip(group.columns, row.statistics, strict=True)
        if found is not None
    ]
    return escape.table_csv([FIELDS, *lines])


def _csv_line(group: Group, name: str, method: str, column: Column, found: Statistic) -> list[Any]:
    gap = found.difference
    tail = (gap.low, gap.high, found.over, gap.items) if gap else (None, None, None, None)
    line = [
        group.backbone, group.data, name, method, column.benchmark, column.metric, column.better, found.seeds,
        found.change, *tail, VERDICT[found.verdict],
    ]  # fmt: skip
    return [plain(v) for v in line]


def latex(groups: Sequence[Group], method: str) -> str:
    """One booktabs table for each group; empty without rows."""
    caption = (
        rf"difference to {tex(method)} over the seeds of both, with its 95\,\% interval over seeds and items together, "
        r"unless it says less; $\ast$ marks one that excludes 0."
    )
    return "".join("\n" + latex_table(group, _latex_cell, caption) for group in groups if group.rows)


def _latex_cell(found: Statistic | None, column: Column) -> str:
    if found is None:
        return "--"
    ends = rf" {{\scriptsize {tex(_interval(found, column))}}}" if found.difference else ""
    return tex(number(found.change, column, sign=True)) + (r"$^\ast$" if found.verdict else "") + ends

"""The tables as Markdown, CSV, LaTeX and flat metrics: same numbers, same marks as the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compclip.report import crossed_intervals, escape, table_heads
from compclip.report.escape import to_latex, to_markdown
from compclip.report.run_collection import MissingResult
from compclip.report.statistics import Interval
from compclip.report.table_heads import Coverage
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic

FIELDS = (
    "backbone", "data", "method", "benchmark", "metric", "better", "seeds", "mean", "std", "rank",
    "difference", "low", "high", "over", "items", "verdict", "scored", "records", "model", "weights",
)  # fmt: skip
VERDICT = {1: "better", -1: "worse", 0: ""}
MARKS = {1: " ▲", -1: " ▼", 0: ""}


def format_number(value: float, column: Column, sign: bool = False) -> str:
    """Format a value in the column's unit: percent with one decimal, scores with three; a true minus sign."""
    text = f"{value * column.scale:{'+' if sign else ''}.{column.digits}f}"
    return f"{0:.{column.digits}f}" if float(text) == 0 else text.replace("-", "−")


def format_interval(interval: Interval, column: Column) -> str:
    """Format an interval's ends in the column's unit, with their signs."""
    return f"[{format_number(interval.low, column, sign=True)}, {format_number(interval.high, column, sign=True)}]"


def format_spread(statistic: Statistic, column: Column) -> str:
    """Format ' ± std' in the column's unit; empty for one seed."""
    return "" if statistic.std is None else f" ± {format_number(statistic.std, column)}"


def format_markdown(
    groups: Sequence[ResultTable],
    missing: Sequence[MissingResult],
    legend: str,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Format all tables in Markdown: best bold, second underlined, ▲ ▼ where the interval excludes 0.

    `notes` below them.
    """
    sections = ["# Report", legend]
    for group in groups:
        sections.append(
            f"## {to_markdown(group.name)}\n\n{markdown_head(group)}{_markdown_table(group, _markdown_cell)}"
        )
        sections += [f"† {to_markdown(note)}." for note in (notes or {}).get(group.name, ())]
        sections += [f"{to_markdown(note)}." for note in table_heads.describe_marks(group)]
    if missing:
        sections.append(
            "## Missing\n\n" + "\n".join(f"- {to_markdown(m.cell)}: {to_markdown(m.reason)}" for m in missing)
        )
    return "\n\n".join(sections) + "\n"


def markdown_head(group: ResultTable) -> str:
    """Return what the table's backbone is, and how many records of each benchmark were scored."""
    head = {"Backbone": table_heads.describe_backbone(group), "Scored": table_heads.describe_records(group)}
    return "".join(f"{name}: {to_markdown(text)}.\n\n" for name, text in head.items() if text)


def _markdown_table(group: ResultTable, cell: Callable[[Statistic | None, Column], str]) -> str:
    marks = table_heads.partial_marks(group)
    names = [" ".join(filter(None, (to_markdown(c.name), c.arrow, marks.get(c)))) for c in group.columns]
    lines = [["method", "seeds", *names], ["---", *["---:"] * (len(names) + 1)]]
    for row in group.rows:
        cells = [cell(e, c) for e, c in zip(row.statistics, group.columns, strict=True)]
        lines.append([to_markdown(table_heads.row_label(row, group)), str(row.seeds), *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _markdown_cell(statistic: Statistic | None, column: Column) -> str:
    if statistic is None:
        return "–"
    text = format_number(statistic.mean, column)
    text = {1: f"**{text}**", 2: f"<u>{text}</u>"}.get(statistic.rank, text)
    return text + format_spread(statistic, column) + MARKS[statistic.verdict]


def format_results_csv(groups: Sequence[ResultTable]) -> str:
    """Format one line for each method and column, in the metrics' own unit (fractions)."""
    lines = []
    for group in groups:
        coverage = table_heads.coverage_by_column(group)
        head = [table_heads.model_name(group), table_heads.weights_name(group)]
        for row in group.rows:
            cells = zip(group.columns, row.statistics, strict=True)
            lines += [_csv_line(group, row, c, e, coverage[c]) + head for c, e in cells if e is not None]
    return escape.format_csv([FIELDS, *lines])


def _csv_line(
    group: ResultTable, row: MethodRow, column: Column, statistic: Statistic, coverage: Coverage | None
) -> list[Any]:
    gap = statistic.difference
    scored, records = (coverage.scored, coverage.records) if coverage else (None, None)
    tail = (gap.low, gap.high, statistic.basis, gap.items) if gap else (None, None, None, None)
    line = [
        group.backbone, group.data, row.method, column.benchmark, column.metric, column.better,
        statistic.seeds, statistic.mean, statistic.std, statistic.rank or None, statistic.change, *tail,
        VERDICT[statistic.verdict], scored, records,
    ]  # fmt: skip
    return [csv_value(v) for v in line]


def csv_value(value: Any) -> Any:
    """Return a value for CSV: six decimals, empty for None."""
    return "" if value is None else f"{value:.6f}" if isinstance(value, float) else value


def format_latex(groups: Sequence[ResultTable], notes: Mapping[str, Sequence[str]] | None = None) -> str:
    """Format one booktabs table for each group, `notes` in its caption; needs the packages booktabs and graphicx."""
    latex_tables = [_latex_table(group, (notes or {}).get(group.name, ())) for group in groups]
    return "% needs \\usepackage{booktabs,graphicx}\n" + "\n".join(latex_tables)


def _latex_table(group: ResultTable, notes: Sequence[str]) -> str:
    head = {"Backbone": table_heads.describe_backbone(group), "Scored": table_heads.describe_records(group)}
    notes = [*(f"{name}: {text}" for name, text in head.items() if text), *notes, *table_heads.describe_marks(group)]
    notes_text = "".join(f" {to_latex(note)}." for note in notes)
    return format_latex_table(
        group, _latex_cell,
        r"mean $\pm$ standard deviation over seeds; best bold, second best underlined; "
        r"$\ast$ marks a difference to the pretrained model whose 95\,\% interval over seeds and items (of one "
        r"checkpoint over the items alone) excludes 0."
        rf"{notes_text}",
    )  # fmt: skip


def format_latex_table(group: ResultTable, cell: Callable[[Statistic | None, Column], str], caption: str) -> str:
    """Format one booktabs table of a group: a line a row, `cell` of each statistic.

    The caption begins with its name.
    """
    rows = []
    for row in group.rows:
        cells = [cell(e, c) for e, c in zip(row.statistics, group.columns, strict=True)]
        rows.append(" & ".join([to_latex(table_heads.row_label(row, group)), *cells]) + r" \\")
    lines = [
        r"\begin{table}[t]", r"\centering", r"\resizebox{\linewidth}{!}{%",
        rf"\begin{{tabular}}{{l{'c' * len(group.columns)}}}", r"\toprule", *_latex_head(group), r"\midrule",
        *rows,
        r"\bottomrule", r"\end{tabular}}",
        rf"\caption{{{to_latex(group.name)}: {caption}}}",
        r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _latex_head(group: ResultTable) -> list[str]:
    spans = span_benchmarks(group.columns)
    top = " & ".join(["", *(rf"\multicolumn{{{n}}}{{c}}{{{to_latex(name)}}}" for name, n in spans)])
    arrows = {"↑": r" $\uparrow$", "↓": r" $\downarrow$", "": ""}
    marks = {column: rf" {to_latex(mark)}" for column, mark in table_heads.partial_marks(group).items()}
    names = " & ".join(["Method", *(to_latex(c.metric) + arrows[c.arrow] + marks.get(c, "") for c in group.columns)])
    return [top + r" \\", names + r" \\"]


def span_benchmarks(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Return neighbouring columns of one benchmark as (benchmark, number of columns)."""
    spans: list[tuple[str, int]] = []
    for column in columns:
        if spans and spans[-1][0] == column.benchmark:
            spans[-1] = (column.benchmark, spans[-1][1] + 1)
        else:
            spans.append((column.benchmark, 1))
    return spans


def _latex_cell(statistic: Statistic | None, column: Column) -> str:
    if statistic is None:
        return "--"
    text = format_number(statistic.mean, column).replace("−", "$-$")
    text = {1: rf"\textbf{{{text}}}", 2: rf"\underline{{{text}}}"}.get(statistic.rank, text)
    std = "" if statistic.std is None else rf" {{\scriptsize $\pm$ {format_number(statistic.std, column)}}}"
    return text + std + (r"$^\ast$" if statistic.verdict else "")


def flatten_means(groups: Sequence[ResultTable]) -> dict[str, float]:
    """Return the means for `dvc metrics show`: method-backbone-data/benchmark/metric -> value, six decimals."""
    return {
        f"{row.method}-{group.backbone}-{group.data}/{column.name}": round(statistic.mean, 6)
        for group in groups
        for row in group.rows
        for column, statistic in zip(group.columns, row.statistics, strict=True)
        if statistic is not None
    }


CONTRAST_FIELDS = (
    "backbone",
    "data",
    "method",
    "reference",
    "benchmark",
    "metric",
    "better",
    "seeds",
    "difference",
    "low",
    "high",
    "over",
    "items",
    "verdict",
)
CONTRAST_LEGEND = (
    "Row minus {}, over the seeds of both, with its 95 % interval over seeds and items together, both paired; ▲ ▼ "
    "better or worse where it excludes 0. Where it is over less it says so: items alone, of one seed, or seeds alone, "
    "where a metric keeps no items."
)


def format_contrasts_markdown(groups: Sequence[ResultTable], method: str) -> str:
    """Format a table for each group in Markdown; empty without rows."""
    name = to_markdown(method)
    return "".join(
        f"\n## Difference to {name}: {to_markdown(group.name)}\n\n{CONTRAST_LEGEND.format(name)}\n\n"
        f"{_markdown_table(group, _contrast_cell)}\n"
        for group in groups
        if group.rows
    )


def _contrast_cell(statistic: Statistic | None, column: Column) -> str:
    if statistic is None or statistic.change is None:
        return "–"
    change, interval = format_number(statistic.change, column, sign=True), _contrast_interval(statistic, column)
    return f"{change} {interval}".rstrip() + MARKS[statistic.verdict]


def _contrast_interval(statistic: Statistic, column: Column) -> str:
    """Return the ends, and what the interval is over where that is less than seeds and items; empty without one."""
    if statistic.difference is None:
        return ""
    basis = crossed_intervals.describe_basis(statistic.basis)
    return f"{format_interval(statistic.difference, column)} {basis}".rstrip()


def format_contrasts_csv(groups: Sequence[ResultTable], method: str) -> str:
    """Format one line for each method and column, in the metrics' own unit; the head alone without rows."""
    lines = [
        _contrast_csv_line(group, row.method, method, column, statistic)
        for group in groups
        for row in group.rows
        for column, statistic in zip(group.columns, row.statistics, strict=True)
        if statistic is not None
    ]
    return escape.format_csv([CONTRAST_FIELDS, *lines])


def _contrast_csv_line(group: ResultTable, name: str, method: str, column: Column, statistic: Statistic) -> list[Any]:
    gap = statistic.difference
    tail = (gap.low, gap.high, statistic.basis, gap.items) if gap else (None, None, None, None)
    line = [
        group.backbone,
        group.data,
        name,
        method,
        column.benchmark,
        column.metric,
        column.better,
        statistic.seeds,
        statistic.change,
        *tail,
        VERDICT[statistic.verdict],
    ]
    return [csv_value(v) for v in line]


def format_contrasts_latex(groups: Sequence[ResultTable], method: str) -> str:
    """Format one booktabs table for each group; empty without rows."""
    caption = (
        rf"difference to {to_latex(method)} over the seeds of both, with its 95\,\% interval over seeds and items "
        r"together, unless it says less; $\ast$ marks one that excludes 0."
    )
    return "".join("\n" + format_latex_table(group, _contrast_latex_cell, caption) for group in groups if group.rows)


def _contrast_latex_cell(statistic: Statistic | None, column: Column) -> str:
    if statistic is None or statistic.change is None:
        return "--"
    ends = rf" {{\scriptsize {to_latex(_contrast_interval(statistic, column))}}}" if statistic.difference else ""
    return (
        to_latex(format_number(statistic.change, column, sign=True)) + (r"$^\ast$" if statistic.verdict else "") + ends
    )

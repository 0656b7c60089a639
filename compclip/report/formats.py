"""The tables as Markdown, CSV, LaTeX and flat metrics: same numbers, same marks as the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compclip.report import completeness, escape
from compclip.report.collect import Missing
from compclip.report.completeness import Coverage
from compclip.report.escape import md, tex
from compclip.report.statistics import Interval
from compclip.report.tables import Column, Group, Row, Statistic

FIELDS = (
    "backbone", "data", "method", "benchmark", "metric", "better", "seeds", "mean", "std", "rank",
    "difference", "low", "high", "over", "items", "verdict", "scored", "records", "model", "weights",
)  # fmt: skip
VERDICT = {1: "better", -1: "worse", 0: ""}


def number(value: float, column: Column, sign: bool = False) -> str:
    """A value in the column's unit: percent with one decimal, scores with three; a true minus sign."""
    text = f"{value * column.scale:{'+' if sign else ''}.{column.digits}f}"
    return f"{0:.{column.digits}f}" if float(text) == 0 else text.replace("-", "−")


def between(found: Interval, column: Column) -> str:
    """An interval's ends in the column's unit, with their signs."""
    return f"[{number(found.low, column, sign=True)}, {number(found.high, column, sign=True)}]"


def spread(found: Statistic, column: Column) -> str:
    """' ± std' in the column's unit; empty for one seed."""
    return "" if found.std is None else f" ± {number(found.std, column)}"


def markdown(
    groups: Sequence[Group], missing: Sequence[Missing], legend: str, notes: Mapping[str, Sequence[str]] | None = None
) -> str:
    """All tables in Markdown: best bold, second underlined, ▲ ▼ where the interval excludes 0; `notes` below them."""
    parts = ["# Report", legend]
    for group in groups:
        parts.append(f"## {md(group.name)}\n\n{markdown_head(group)}{_markdown_table(group)}")
        parts += [f"† {md(note)}." for note in (notes or {}).get(group.name, ())]
        parts += [f"{md(note)}." for note in completeness.notes(group)]
    if missing:
        parts.append("## Missing\n\n" + "\n".join(f"- {md(m.cell)}: {md(m.reason)}" for m in missing))
    return "\n\n".join(parts) + "\n"


def markdown_head(group: Group) -> str:
    """What the table's backbone is, and how many records of each benchmark were scored."""
    head = {"Backbone": completeness.backbone(group), "Scored": completeness.records(group)}
    return "".join(f"{name}: {md(text)}.\n\n" for name, text in head.items() if text)


def headings(group: Group) -> list[str]:
    """A table's column names in Markdown, each with its arrow, and its mark where much of it was not scored."""
    marks = completeness.marks(group)
    return [" ".join(filter(None, (md(c.name), c.arrow, marks.get(c)))) for c in group.columns]


def _markdown_table(group: Group) -> str:
    head = ["method", "seeds", *headings(group)]
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *map(_markdown_row(group), group.rows)])


def _markdown_row(group: Group) -> Any:
    def line(row: Row) -> list[str]:
        cells = zip(row.statistics, group.columns, strict=True)
        return [md(completeness.label(row, group)), str(row.seeds), *(_markdown_cell(e, c) for e, c in cells)]

    return line


def _markdown_cell(found: Statistic | None, column: Column) -> str:
    if found is None:
        return "–"
    text = number(found.mean, column)
    text = {1: f"**{text}**", 2: f"<u>{text}</u>"}.get(found.rank, text)
    return text + spread(found, column) + {1: " ▲", -1: " ▼", 0: ""}[found.verdict]


def table_csv(groups: Sequence[Group]) -> str:
    """One line for each method and column, in the metrics' own unit (fractions), empty where there is no number."""
    lines = []
    for group in groups:
        coverage, head = completeness.of_columns(group), [completeness.model(group), completeness.weights(group)]
        for row in group.rows:
            cells = zip(group.columns, row.statistics, strict=True)
            lines += [_csv_line(group, row, c, e, coverage[c]) + head for c, e in cells if e is not None]
    return escape.table_csv([FIELDS, *lines])


def _csv_line(group: Group, row: Row, column: Column, found: Statistic, coverage: Coverage | None) -> list[Any]:
    gap = found.difference
    scored, records = (coverage.scored, coverage.records) if coverage else (None, None)
    tail = (gap.low, gap.high, found.over, gap.items) if gap else (None, None, None, None)
    line = [
        group.backbone, group.data, row.method, column.benchmark, column.metric, column.better,
        found.seeds, found.mean, found.std, found.rank or None, found.change, *tail, VERDICT[found.verdict],
        scored, records,
    ]  # fmt: skip
    return [plain(v) for v in line]


def plain(value: Any) -> Any:
    """A value as CSV has it: six decimals, nothing for none."""
    return "" if value is None else f"{value:.6f}" if isinstance(value, float) else value


def latex(groups: Sequence[Group], notes: Mapping[str, Sequence[str]] | None = None) -> str:
    """One booktabs table for each group, `notes` in its caption; needs the packages booktabs and graphicx."""
    made = [_latex_table(group, (notes or {}).get(group.name, ())) for group in groups]
    return "% needs \\usepackage{booktabs,graphicx}\n" + "\n".join(made)


def _latex_table(group: Group, notes: Sequence[str]) -> str:
    head = {"Backbone": completeness.backbone(group), "Scored": completeness.records(group)}
    notes = [*(f"{name}: {text}" for name, text in head.items() if text), *notes, *completeness.notes(group)]
    told = "".join(f" {tex(note)}." for note in notes)
    return latex_table(
        group, _latex_cell,
        r"mean $\pm$ standard deviation over seeds; best bold, second best underlined; "
        r"$\ast$ marks a difference to the pretrained model whose 95\,\% interval over seeds and items (of one "
        r"checkpoint over the items alone) excludes 0."
        rf"{told}",
    )  # fmt: skip


def latex_table(group: Group, cell: Callable[[Statistic | None, Column], str], caption: str) -> str:
    """One booktabs table of a group: a line a row, `cell` of each statistic; the caption begins with its name."""
    lines = [
        r"\begin{table}[t]", r"\centering", r"\resizebox{\linewidth}{!}{%",
        rf"\begin{{tabular}}{{l{'c' * len(group.columns)}}}", r"\toprule", *_latex_head(group), r"\midrule",
        *(_latex_row(completeness.label(row, group), row, group.columns, cell) for row in group.rows),
        r"\bottomrule", r"\end{tabular}}",
        rf"\caption{{{tex(group.name)}: {caption}}}",
        r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _latex_head(group: Group) -> list[str]:
    spans = header(group.columns)
    top = " & ".join(["", *(rf"\multicolumn{{{n}}}{{c}}{{{tex(name)}}}" for name, n in spans)])
    arrows = {"↑": r" $\uparrow$", "↓": r" $\downarrow$", "": ""}
    marks = {column: rf" {tex(mark)}" for column, mark in completeness.marks(group).items()}
    names = " & ".join(["Method", *(tex(c.metric) + arrows[c.arrow] + marks.get(c, "") for c in group.columns)])
    return [top + r" \\", names + r" \\"]


def header(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Neighbouring columns of one benchmark as (benchmark, number of columns)."""
    spans: list[tuple[str, int]] = []
    for column in columns:
        if spans and spans[-1][0] == column.benchmark:
            spans[-1] = (column.benchmark, spans[-1][1] + 1)
        else:
            spans.append((column.benchmark, 1))
    return spans


def _latex_row(name: str, row: Row, columns: Sequence[Column], cell: Callable[[Statistic | None, Column], str]) -> str:
    cells = [cell(e, c) for e, c in zip(row.statistics, columns, strict=True)]
    return " & ".join([tex(name), *cells]) + r" \\"


def _latex_cell(found: Statistic | None, column: Column) -> str:
    if found is None:
        return "--"
    text = number(found.mean, column).replace("−", "$-$")
    text = {1: rf"\textbf{{{text}}}", 2: rf"\underline{{{text}}}"}.get(found.rank, text)
    std = "" if found.std is None else rf" {{\scriptsize $\pm$ {number(found.std, column)}}}"
    return text + std + (r"$^\ast$" if found.verdict else "")


def metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Flat means for `dvc metrics show`: method-backbone-data/benchmark/metric -> value, six decimals."""
    return {
        f"{row.method}-{group.backbone}-{group.data}/{column.name}": round(found.mean, 6)
        for group in groups
        for row in group.rows
        for column, found in zip(group.columns, row.statistics, strict=True)
        if found is not None
    }

"""The tables as LaTeX that a paper takes as it is: one booktabs table a section of columns, with readable names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compclip.config.columns import SUMMARY
from compclip.report import table_heads
from compclip.report.blind_comparison import BlindTable
from compclip.report.escape import to_latex
from compclip.report.readable_names import format_name
from compclip.report.table_formats import (
    FormatCell,
    describe_contrast_interval,
    describe_head,
    describe_score_interval,
    format_number,
    span_benchmarks,
)
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic

ARROWS = {"↑": r" $\uparrow$", "↓": r" $\downarrow$", "": ""}
WIDE = 8  # columns beyond which a table spans both columns of a page


def format_latex(
    groups: Sequence[ResultTable],
    notes: Mapping[str, Sequence[str]] | None = None,
    blind: Mapping[str, Sequence[MethodRow]] | None = None,
) -> str:
    """Format a booktabs table for each group and section of columns; needs the packages booktabs and graphicx.

    Sections are means over benchmarks, composition, retrieval and classification, in their order in the table. The
    first table of a group says in its caption how to read all of them, `notes` included. `blind` rows, by group, are
    the last of its tables.
    """
    latex_tables = []
    for group in groups:
        head = [f"{name}: {text}" for name, text in describe_head(group).items()]
        sentences = [*head, *(notes or {}).get(group.name, ()), *table_heads.describe_marks(group)]
        caption = (
            r"mean $\pm$ standard deviation over seeds; best bold, second best underlined where that order is decided, "
            r"$\approx$ where a row cannot be told from the best; "
            r"$\ast$ marks a difference to the pretrained model whose 95\,\% interval over seeds and items (of one "
            r"checkpoint over the items alone) excludes 0."
        ) + "".join(f" {to_latex(sentence)}." for sentence in sentences)
        if blind_rows := (blind or {}).get(group.name, ()):
            caption += " Rows in italics see no picture."
        sections = split_sections(group)
        for section, indices in sections.items():
            foot = _take_columns(replace(group, rows=tuple(blind_rows)), indices)
            latex_tables.append(_latex_table(_take_columns(group, indices), _latex_cell, caption, section, foot))
            caption = f"numbers and marks as in the table of {to_latex(next(iter(sections)))}."
    return "% needs \\usepackage{booktabs,graphicx}\n" + "\n".join(latex_tables)


def format_contrasts_latex(groups: Sequence[ResultTable], method: str) -> str:
    """Format a booktabs table of differences for each group and section of columns; empty without rows."""
    caption = (
        rf"difference to {to_latex(method)} over the seeds of both, with its 95\,\% interval over seeds and items "
        r"together, unless it says less; $\ast$ marks one that excludes 0."
    )
    return "".join(_latex_sections(group, _latex_contrast, caption) for group in groups)


def format_blind_latex(blind_tables: Sequence[BlindTable]) -> str:
    """Format what methods have above the best blind row, and on sighted items, as booktabs tables."""
    above = (
        r"difference to the best row that sees no picture, with its 95\,\% interval over seeds and items together, "
        r"unless it says less; $\ast$ marks one that excludes 0."
    )
    sighted = (
        r"score on the items that every row without a picture gets wrong or ties on, with its 95\,\% interval over "
        r"seeds and items together, unless it says less."
    )
    return "".join(
        _latex_sections(table.above, _latex_contrast, above) + _latex_sections(table.sighted, _latex_score, sighted)
        for table in blind_tables
    )


def _latex_sections(group: ResultTable, cell: FormatCell, caption: str) -> str:
    """Format a table for each section of a group's columns; empty without rows."""
    sections = split_sections(group).items() if group.rows else ()
    return "".join(
        "\n" + _latex_table(_take_columns(group, indices), cell, caption, section) for section, indices in sections
    )


def split_sections(group: ResultTable) -> dict[str, list[int]]:
    """Divide a table's columns by what their benchmarks measure; means over benchmarks are a section of their own.

    Returns the columns' indices by section.
    """
    kinds = {name: result.kind for run in group.runs for name, result in run.results.items()}
    indices: dict[str, list[int]] = {}
    for index, column in enumerate(group.columns):
        section = "means" if column.benchmark == SUMMARY else kinds.get(column.benchmark, "other benchmarks")
        indices.setdefault(section, []).append(index)
    return indices


def _take_columns(group: ResultTable, indices: Sequence[int]) -> ResultTable:
    rows = tuple(replace(row, statistics=tuple(row.statistics[index] for index in indices)) for row in group.rows)
    return replace(group, columns=tuple(group.columns[index] for index in indices), rows=rows)


def _latex_table(
    group: ResultTable, cell: FormatCell, caption: str, section: str, foot: ResultTable | None = None
) -> str:
    """Format a booktabs table: a line a row, `cell` of each statistic, and the rows of `foot` below a line, in italics.

    Its caption begins with group and section.
    """
    spans, rules, first = [], [], 2
    for name, n in span_benchmarks(group.columns):
        spans.append(rf"\multicolumn{{{n}}}{{c}}{{{to_latex(format_name(name))}}}")
        rules.append(rf"\cmidrule(lr){{{first}-{first + n - 1}}}")
        first += n
    marks = {column: rf" {to_latex(mark)}" for column, mark in table_heads.column_marks(group).items()}
    names = [to_latex(format_name(c.metric)) + ARROWS[c.arrow] + marks.get(c, "") for c in group.columns]
    rows = _latex_rows(group, cell, "{}")
    last_rows = _latex_rows(foot, cell, r"\textit{{{}}}") if foot else []
    head = [["", *spans], ["Method", *names]]
    return layout_latex(
        "l" + "c" * len(names), head, rows, f"{to_latex(group.name)}, {section}", caption, " ".join(rules), last_rows
    )


def _latex_rows(group: ResultTable, cell: FormatCell, label: str) -> list[list[str]]:
    """Return each row's cells, the first its name in the form of `label`."""
    return [
        [label.format(to_latex(table_heads.row_label(row, group)))]
        + [cell(statistic, column) for statistic, column in zip(row.statistics, group.columns, strict=True)]
        for row in group.rows
    ]


def layout_latex(
    alignment: str,
    head: Sequence[Sequence[str]],
    rows: Sequence[Sequence[str]],
    name: str,
    caption: str,
    rules: str = "",
    last_rows: Sequence[Sequence[str]] = (),
) -> str:
    """Return a booktabs table of cells that are LaTeX already, at most as wide as the line; `name` begins its caption.

    `rules` stand below the first line of the head, `last_rows` below a line of their own. A table of many columns spans
    both columns of a page.
    """
    head_lines, row_lines, last_lines = (
        [" & ".join(cells) + r" \\" for cells in lines] for lines in (head, rows, last_rows)
    )
    head_lines[1:1] = [rules] if rules else []
    row_lines += [r"\midrule", *last_lines] if last_lines else []
    table = "table*" if len(alignment) > WIDE else "table"
    return "\n".join([
        rf"\begin{{{table}}}[t]", r"\centering", r"\setlength{\tabcolsep}{3pt}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule", *head_lines, r"\midrule", *row_lines, r"\bottomrule", r"\end{tabular}}",
        rf"\caption{{{name}: {caption}}}", rf"\end{{{table}}}", "",
    ])  # fmt: skip


def _latex_cell(statistic: Statistic | None, column: Column) -> str:
    if statistic is None:
        return "--"
    text = format_number(statistic.mean, column).replace("−", "$-$")
    text = {1: rf"\textbf{{{text}}}", 2: rf"\underline{{{text}}}"}.get(statistic.rank, text)
    std = "" if statistic.std is None else rf" {{\scriptsize $\pm$ {format_number(statistic.std, column)}}}"
    marks = (r"\approx" if statistic.equal_to else "") + (r"\ast" if statistic.verdict else "")
    return text + (f"$^{{{marks}}}$" if marks else "") + std


def _latex_score(statistic: Statistic | None, column: Column) -> str:
    """Format a score with its own interval, which `difference` holds."""
    if statistic is None:
        return "--"
    text = to_latex(format_number(statistic.mean, column))
    ends = describe_score_interval(statistic, column)
    return text + rf" {{\scriptsize {to_latex(ends)}}}" if ends else text


def _latex_contrast(statistic: Statistic | None, column: Column) -> str:
    if statistic is None or statistic.change is None:
        return "--"
    text = to_latex(format_number(statistic.change, column, sign=True)) + (r"$^\ast$" if statistic.verdict else "")
    ends = describe_contrast_interval(statistic, column)
    return text + rf" {{\scriptsize {to_latex(ends)}}}" if ends else text

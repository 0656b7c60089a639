"""The tables as cells of the page, as Markdown, CSV, LaTeX and flat metrics: the same numbers and marks in all of them.

A table of contrasts has differences to a method, or to the pretrained model, where the others have means.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from compclip.base.messages import format_count
from compclip.config.columns import SUMMARY
from compclip.config.sections import WHOLE
from compclip.report import decisions, escape, statistics, table_heads
from compclip.report.escape import format_name, to_latex, to_markdown
from compclip.report.statistics import Interval
from compclip.report.table_heads import SHARED, SharedPictures
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic, benchmark_kinds

FIELDS = (
    "backbone", "data", "method", "benchmark", "metric", "better", "seeds", "mean", "std", "rank",
    "difference", "low", "high", "over", "items", "verdict", "rests_on", "scored", "records", "model", "weights",
    "split", "tuned_on", "checkpoint", "search",
)  # fmt: skip
CONTRAST_FIELDS = (
    "backbone", "data", "method", "reference", "benchmark", "metric", "better", "seeds",
    "difference", "low", "high", "over", "items", "verdict", "rests_on",
)  # fmt: skip
LATEX_PACKAGES = "% needs \\usepackage{booktabs,graphicx}\n"
VERDICT = {1: "better", -1: "worse", 0: ""}
BETTER = {"↑": "higher", "↓": "lower", "": ""}
MARK = {1: "▲", -1: "▼", 0: ""}
FormatCell = Callable[[Statistic, Column], str]


def format_number(value: float, column: Column, sign: bool = False) -> str:
    """Format a value in the column's unit: percent with one decimal, scores with three; a true minus sign."""
    text = f"{value * column.scale:{'+' if sign else ''}.{column.digits}f}"
    return f"{0:.{column.digits}f}" if float(text) == 0 else text.replace("-", "−")


def format_interval(interval: Interval, column: Column, sign: bool = True) -> str:
    """Format an interval's ends in the column's unit; those of a difference with their signs."""
    return f"[{format_number(interval.low, column, sign)}, {format_number(interval.high, column, sign)}]"


def describe_head(group: ResultTable) -> dict[str, str]:
    """Describe what the table's backbone is, and how many records of each benchmark were scored, as far as known."""
    split = "" if group.split.name == WHOLE else group.split.describe()
    head = {"Backbone": table_heads.describe_backbone(group), "Scores of": split}
    head["Scored"] = table_heads.describe_records(group)
    return {name: text for name, text in head.items() if text}


# The page


class TableCell(NamedTuple):
    """A number as the page shows it; `title` is said when it is pointed at."""

    text: str
    small: str = ""
    css: str = ""
    title: str = ""


EMPTY = TableCell("–", css="none")


def layout_means(
    group: ResultTable, shared: SharedPictures | None = None, blind: Sequence[MethodRow] = ()
) -> dict[str, Any]:
    """Lay out a table of means: header spans, columns, and rows of shown numbers; `shared` marks its benchmarks.

    `blind` are rows of what is scored without the picture, which no other is compared with.
    """
    seen = dict.fromkeys(shared or {}, SHARED)
    table = _layout_table(group, group.rows, _make_mean_cell)
    blind_lines = _layout_table(group, blind, _make_mean_cell)["rows"]
    return table | {"seen": seen, "blind": blind_lines}


def layout_headline(
    group: ResultTable, reference: str, shared: SharedPictures | None = None, notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Lay out the table that is read first: its cells say the rest when pointed at, and its notes what marks mean."""
    overlaps = [f"{SHARED} {note}" for note in table_heads.describe_overlaps(group, shared or {})]
    table = _layout_table(group, group.rows, functools.partial(_make_headline_cell, reference=reference))
    seen = dict.fromkeys(shared or {}, SHARED)
    return table | {"seen": seen, "notes": [*notes, *overlaps, *table_heads.describe_marks(group)]}


def layout_scores(group: ResultTable) -> dict[str, Any]:
    """Lay out a table of scores with their own intervals, of which `difference` holds the ends."""
    return _layout_table(group, group.rows, _make_score_cell)


def layout_differences(group: ResultTable) -> dict[str, Any]:
    """Lay out a table of differences with their intervals; rows without a difference are left out."""
    compared: dict[str, MethodRow] = {}
    bases = set()
    for row, _, statistic in group.numbers():
        if statistic.change is not None:
            compared[row.method] = row
        if statistic.difference:
            bases.add(statistics.describe_basis(statistic.basis))
    basis = bases.pop() if len(bases) == 1 else ""  # what holds for all is said once

    def show(statistic: Statistic, column: Column) -> TableCell:
        cell = _make_difference_cell(statistic, column)
        return cell._replace(small=cell.small.removesuffix(f" {basis}") if basis else cell.small)

    table = _layout_table(group, list(compared.values()), show)
    least = decisions.list_least(group) if compared else {}
    texts = [f"±{format_number(least[column], column)}" if column in least else "" for column in group.columns]
    return table | {"basis": basis, "least": texts if least else [], "prior": describe_prior(group)}


def describe_prior(group: ResultTable) -> str:
    """Say what a row's interval takes from the seeds of the table's other rows; empty where it takes nothing."""
    freedoms = []
    for _, _, statistic in group.numbers():
        spread = statistic.difference.spread if statistic.difference else None
        if spread and spread.prior_freedom:
            freedoms.append(f"{spread.prior_freedom:.2g}")
    if not freedoms:
        return ""
    ends = " to ".join(dict.fromkeys((min(freedoms, key=float), max(freedoms, key=float))))
    return f"What seeds vary by has a prior from the table's trained rows, of {ends} degrees of freedom"


def _layout_table(
    group: ResultTable, rows: Sequence[MethodRow], show: Callable[[Statistic, Column], TableCell]
) -> dict[str, Any]:
    lines = [(row.method, row.seeds, group.list_cells(row, show, EMPTY)) for row in rows]
    return {
        "name": group.name,
        "head": describe_head(group),
        "scored": table_heads.benchmark_coverage(group),
        "spans": span_benchmarks(group.columns),
        "columns": group.columns,
        "marks": table_heads.column_marks(group),
        "rows": lines,
        "labels": {row.method: table_heads.row_label(row, group) for row in rows},
        "notes": [],
        "prior": "",
        "blind": [],
        "seen": {},
        "basis": "",
        "least": [],  # what some tables have
    }


def _make_mean_cell(statistic: Statistic, column: Column) -> TableCell:
    small = "" if statistic.std is None else "±" + format_number(statistic.std, column)
    css = f"{'best' if statistic.rank == 1 else ''} {VERDICT[statistic.verdict]}".strip()
    return TableCell(format_number(statistic.mean, column), small, css)


def _make_headline_cell(statistic: Statistic, column: Column, reference: str) -> TableCell:
    value = f"{statistic.mean * column.scale:.{column.digits + 2}f}{'' if column.score else ' %'}"
    spread = "" if statistic.std is None else f" ± {format_number(statistic.std, column)}"
    members = f" ({', '.join(member.metric for member in column.members)})" if column.is_mean else ""
    title = f"{column.name}{members}: {value}{spread}, {format_count(statistic.seeds, 'seed')}"
    if statistic.change is not None:
        change = format_number(statistic.change, column, sign=True)
        title += f"; {change} to {reference} {describe_interval(statistic, column)}".rstrip()
    for benchmark, part in statistic.without:
        interval = describe_interval(part, column)
        title += f"; {format_number(part.change or 0.0, column, sign=True)} {interval} without {benchmark}"
    if statistic.equal_to:
        title += f"; cannot be told from {statistic.equal_to}"
    return _make_mean_cell(statistic, column)._replace(small="", title=title)


def _make_score_cell(statistic: Statistic, column: Column) -> TableCell:
    return TableCell(format_number(statistic.mean, column), describe_interval(statistic, column, sign=False))


def _make_difference_cell(statistic: Statistic, column: Column) -> TableCell:
    if statistic.change is None:
        return EMPTY
    text = format_number(statistic.change, column, sign=True)
    return TableCell(text, describe_interval(statistic, column) or "no items", VERDICT[statistic.verdict])


def span_benchmarks(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Return neighbouring columns of one benchmark as (benchmark, number of columns)."""
    return [(name, len(list(of_name))) for name, of_name in groupby(columns, lambda column: column.benchmark)]


def name_column(column: Column) -> str:
    """Return the head of a column by itself: a summary's name, a benchmark's where it is its one number."""
    if column.benchmark == SUMMARY:
        return column.metric
    return column.benchmark if column.is_mean else column.name


# Markdown


def format_markdown_table(group: ResultTable) -> str:
    """Format a table in Markdown: best bold, ▲ ▼ where the interval excludes 0."""
    marks = table_heads.column_marks(group)
    names = []
    for c in group.columns:
        name = to_markdown(name_column(c))
        names.append(" ".join(filter(None, (name, c.arrow, marks[c]))))
    rows = []
    for row in group.rows:
        cells = group.list_cells(row, _markdown_cell, "–")
        rows.append([to_markdown(table_heads.row_label(row, group)), str(row.seeds), *cells])
    return escape.layout_markdown(["method", "seeds", *names], rows, {"seeds", *names})


def _markdown_cell(statistic: Statistic, column: Column) -> str:
    text = format_number(statistic.mean, column)
    text = f"**{text}**" if statistic.rank == 1 else text
    spread = "" if statistic.std is None else f" ± {format_number(statistic.std, column)}"
    return f"{text}{spread} {MARK[statistic.verdict]}".rstrip()


def describe_interval(statistic: Statistic, column: Column, sign: bool = True) -> str:
    """Return the ends, and what the interval is over where that is less than seeds and items; empty without one."""
    if statistic.difference is None:
        return ""
    ends = format_interval(statistic.difference, column, sign)
    return f"{ends} {statistics.describe_basis(statistic.basis)}".rstrip()


# CSV and metrics


def format_results_csv(groups: Sequence[ResultTable]) -> str:
    """Format one line for each method and column, in the metrics' own unit (fractions)."""
    lines: list[Sequence[object]] = []
    for group in groups:
        coverages = {column: table_heads.column_coverage(column, group.runs) for column in group.columns}
        backbone_names = table_heads.backbone_names(group)
        for row, c, e in group.numbers():
            coverage = coverages[c]
            scored = (coverage.scored, coverage.records) if coverage else (None, None)
            lines.append((
                group.backbone, group.data, row.method, c.benchmark, c.metric, BETTER[c.arrow], e.seeds,
                e.mean, e.std, e.rank or None, *list_difference(e), " ".join(e.rests_on), *scored,
                *backbone_names, group.split.name,
                *(group.get_note(mark, row.method) for mark in table_heads.ROW_MARKS),
            ))  # fmt: skip
    return escape.format_csv([FIELDS, *lines])


def format_contrasts_csv(groups: Sequence[ResultTable], method: str) -> str:
    """Format one line for each method and column, in the metrics' own unit; the head alone without rows."""
    lines: list[Sequence[object]] = []
    for group in groups:
        for row, c, e in group.numbers():
            head = (group.backbone, group.data, row.method, method, c.benchmark, c.metric, BETTER[c.arrow], e.seeds)
            lines.append((*head, *list_difference(e), " ".join(e.rests_on)))
    return escape.format_csv([CONTRAST_FIELDS, *lines])


def list_difference(statistic: Statistic | None) -> tuple[Any, ...]:
    """Return difference, low, high, over, items and verdict, for a line of a CSV file."""
    if statistic is None:
        return (None,) * 6
    gap = statistic.difference
    interval = (gap.low, gap.high, statistic.basis, gap.items) if gap else (None, None, None, None)
    return statistic.change, *interval, VERDICT[statistic.verdict]


def flatten_means(groups: Sequence[ResultTable]) -> dict[str, float]:
    """Return the means for `dvc metrics show`: method-backbone-data/benchmark/metric -> value, six decimals."""
    means = {}
    for group in groups:
        for row, column, statistic in group.numbers():
            means[f"{row.method}-{group.backbone}-{group.data}/{column.name}"] = round(statistic.mean, 6)
    return means


# --- LaTeX that a paper takes as it is: one booktabs table a section of columns, with readable names

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
        sentences = [f"{name}: {text}" for name, text in describe_head(group).items()]
        sentences += (notes or {}).get(group.name, ())
        sentences += table_heads.describe_marks(group)
        caption = (
            r"mean $\pm$ standard deviation over seeds; best bold, second best underlined where that order is decided, "
            r"$\approx$ where a row cannot be told from the best; "
            r"$\ast$ marks a difference to the pretrained model whose 95\,\% interval over seeds and items (of one "
            r"checkpoint over the items alone) excludes 0."
        )
        for sentence in sentences:
            caption += f" {to_latex(sentence)}."
        blind_rows = (blind or {}).get(group.name, ())
        if blind_rows:
            caption += " Rows in italics see no picture."
        sections = split_sections(group)
        for section, columns in sections.items():
            foot = replace(group, rows=tuple(blind_rows)).select(columns)
            latex_tables.append(_latex_table(group.select(columns), _latex_cell, caption, section, foot))
            caption = f"numbers and marks as in the table of {to_latex(next(iter(sections)))}."
    return LATEX_PACKAGES + "\n".join(latex_tables)


def format_contrasts_latex(groups: Sequence[ResultTable], method: str) -> str:
    """Format booktabs tables of differences, one for each group with rows and section of its columns."""
    caption = (
        rf"difference to {to_latex(method)} over the seeds of both, with its 95\,\% interval over seeds and items "
        r"together, unless it says less; $\ast$ marks one that excludes 0."
    )
    text = ""
    for group in groups:
        for section, columns in split_sections(group).items() if group.rows else ():
            text += "\n" + _latex_table(group.select(columns), _latex_contrast, caption, section)
    return text


def split_sections(group: ResultTable) -> dict[str, list[Column]]:
    """Divide a table's columns by what their benchmarks measure; means over benchmarks are a section of their own."""
    kinds = benchmark_kinds(group.runs)
    sections: dict[str, list[Column]] = {}
    for column in group.columns:
        section = "means" if column.benchmark == SUMMARY else kinds.get(column.benchmark, "other benchmarks")
        sections.setdefault(section, []).append(column)
    return sections


def _latex_table(
    group: ResultTable, cell: FormatCell, caption: str, section: str, foot: ResultTable | None = None
) -> str:
    """Format a booktabs table: a line a row, `cell` of each statistic, and the rows of `foot` below a line, in italics.

    Its caption begins with group and section.
    """
    spans = []
    rules = []
    first = 2
    for name, n in span_benchmarks(group.columns):
        spans.append(rf"\multicolumn{{{n}}}{{c}}{{{to_latex(format_name(name))}}}")
        rules.append(rf"\cmidrule(lr){{{first}-{first + n - 1}}}")
        first += n
    marks = table_heads.column_marks(group)
    names = []
    for column in group.columns:
        mark = f" {to_latex(marks[column])}" if marks[column] else ""
        names.append(to_latex(format_name(column.metric)) + ARROWS[column.arrow] + mark)
    lines = [r"\toprule", _latex_line(["", *spans]), " ".join(rules), _latex_line(["Method", *names]), r"\midrule"]
    lines += _latex_rows(group, cell, "{}")
    last_rows = _latex_rows(foot, cell, r"\textit{{{}}}") if foot else []
    lines += [r"\midrule", *last_rows] if last_rows else []
    table = "table*" if len(names) >= WIDE else "table"
    return "\n".join([
        rf"\begin{{{table}}}[t]", r"\centering", r"\setlength{\tabcolsep}{3pt}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{'c' * len(names)}}}", *lines, r"\bottomrule", r"\end{tabular}}",
        rf"\caption{{{to_latex(group.name)}, {section}: {caption}}}", rf"\end{{{table}}}", "",
    ])  # fmt: skip


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_rows(group: ResultTable, cell: FormatCell, label: str) -> list[str]:
    """Return a line for each row, the first cell its name in the form of `label`."""
    lines = []
    for row in group.rows:
        name = label.format(to_latex(table_heads.row_label(row, group)))
        lines.append(_latex_line([name, *group.list_cells(row, cell, "--")]))
    return lines


def _latex_cell(statistic: Statistic, column: Column) -> str:
    text = format_number(statistic.mean, column).replace("−", "$-$")
    text = {1: rf"\textbf{{{text}}}", 2: rf"\underline{{{text}}}"}.get(statistic.rank, text)
    std = "" if statistic.std is None else rf" {{\scriptsize $\pm$ {format_number(statistic.std, column)}}}"
    marks = (r"\approx" if statistic.equal_to else "") + (r"\ast" if statistic.verdict else "")
    return text + (f"$^{{{marks}}}$" if marks else "") + std


def _latex_contrast(statistic: Statistic, column: Column) -> str:
    text = to_latex(format_number(statistic.change or 0.0, column, sign=True))
    text += r"$^\ast$" if statistic.verdict else ""
    ends = describe_interval(statistic, column)
    return text + rf" {{\scriptsize {to_latex(ends)}}}" if ends else text

"""The authors' own differences beside ours: the same method, the same base and the same column, in a paper's table.

For a page of the embedded scenes, whose numbers do not rank methods: it shows how far they are from what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compclip.report.escape import to_markdown
from compclip.report.published_numbers import (
    RELEASED,
    PublishedNumber,
    drop_wrong_activations,
    list_printed_differences,
)
from compclip.report.table_formats import describe_contrast_interval, format_number
from compclip.report.table_heads import column_benchmarks
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic

FINETUNE = "finetune"
PLAIN_FINE_TUNING = (FINETUNE, "clic.b1", "c2lip.finetune")  # what papers call fine-tuned by the contrastive loss alone


@dataclass(frozen=True)
class DifferenceBeside:
    """Our difference of a method to `base` in a column, and those that `source` prints, in the column's unit.

    `interval` is ours as text; `agrees` says whether our sign is that of the mean of the printed ones.
    """

    method: str
    base: str
    column: Column
    source: str
    ours: float
    interval: str
    printed: tuple[float, ...]

    @property
    def agrees(self) -> bool:
        """Whether both move the same way."""
        return self.ours * sum(self.printed) > 0

    def layout(self) -> tuple[str, ...]:
        """Lay out the cells of a line: method, column, what is printed, ours, its interval, whether signs agree."""
        unit = self.column.scale
        ends = (min(self.printed) / unit, max(self.printed) / unit)
        printed = " to ".join(dict.fromkeys(format_number(end, self.column, sign=True) for end in ends))
        ours = format_number(self.ours, self.column, sign=True)
        sign = "same sign" if self.agrees else "other sign"
        return self.method, self.column.name, f"{printed} ({self.source})", ours, self.interval, sign


HEAD = ("method", "column", "the authors'", "ours", "95 %", "")


def list_differences(
    contrasts: Sequence[ResultTable], base: str, numbers: Sequence[PublishedNumber]
) -> list[DifferenceBeside]:
    """List every difference to `base` of the tables that a paper prints too, by table, method and column.

    `contrasts` are tables whose statistics have `change`, the difference to `base`. Means over benchmarks are left out,
    since a paper's are over others, and so are weights that were scored with a wrong activation.
    """
    usable = drop_wrong_activations(numbers)
    lines: list[DifferenceBeside] = []
    for group in contrasts:
        for row in group.rows:
            lines.extend(_list_of_row(group, row, base, usable))
    return lines


def _list_of_row(
    group: ResultTable, row: MethodRow, base: str, numbers: Sequence[PublishedNumber]
) -> Iterator[DifferenceBeside]:
    names = _list_published_names(row.method)
    tables = dict.fromkeys((n.paper, n.table) for n in numbers if n.method.removeprefix(RELEASED) in names)
    for column, statistic in zip(group.columns, row.statistics, strict=True):
        if statistic is None or statistic.change is None or column_benchmarks(column) != [column.benchmark]:
            continue
        for paper, table in tables:
            printed = _list_printed(numbers, paper, table, row.method, base, column.name)
            if printed:
                yield _set_beside(row.method, base, column, f"{paper}, {table}", statistic, printed)


def _list_printed(
    numbers: Sequence[PublishedNumber], paper: str, table: str, method: str, base: str, column: str
) -> list[float]:
    printed: list[float] = []
    for left in _list_published_names(method):
        for right in _list_published_names(base):
            printed += list_printed_differences(numbers, paper, table, left, right, column)
    return printed


def _list_published_names(method: str) -> tuple[str, ...]:
    """List the names that papers' tables have for a method of ours: plain fine-tuning has several."""
    return PLAIN_FINE_TUNING if method == FINETUNE else (method,)


def _set_beside(
    method: str, base: str, column: Column, source: str, statistic: Statistic, printed: Sequence[float]
) -> DifferenceBeside:
    interval = describe_contrast_interval(statistic, column)
    return DifferenceBeside(method, base, column, source, statistic.change or 0.0, interval, tuple(printed))


def summarize(lines: Sequence[DifferenceBeside]) -> str:
    """Say of how many printed differences the sign is ours too; empty without any."""
    if not lines:
        return ""
    agreeing = sum(line.agrees for line in lines)
    return f"Of {len(lines)} differences to {lines[0].base} that the authors print, {agreeing} have the same sign here."


def format_markdown(lines: Sequence[DifferenceBeside]) -> str:
    """Format the summary and the table in Markdown; empty without lines."""
    if not lines:
        return ""
    rows = [HEAD, ("---",) * len(HEAD)]
    rows += [tuple(map(to_markdown, line.layout())) for line in lines]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"\n## The authors' differences to {to_markdown(lines[0].base)}\n\n{summarize(lines)}\n\n{table}\n"

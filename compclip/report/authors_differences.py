"""The authors' own differences beside ours: the same method, the same base and the same column, in a paper's table.

For a page of the embedded scenes, whose numbers do not rank methods: it shows how far they are from what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compclip.config.cell import PRETRAINED
from compclip.report.escape import to_markdown
from compclip.report.published_numbers import (
    RELEASED,
    PublishedNumber,
    drop_wrong_activations,
    list_printed_differences,
)
from compclip.report.table_formats import describe_contrast_interval, format_number
from compclip.report.table_heads import column_benchmarks
from compclip.report.tables import Column, ResultTable, Statistic

FINETUNE = "finetune"
PLAIN_FINE_TUNING = (FINETUNE, "clic.b1", "c2lip.finetune")  # what papers call fine-tuned by the contrastive loss alone


@dataclass(frozen=True)
class DifferenceBeside:
    """Our difference of a method to `base` in a column, in its own unit, and those that a paper prints, in points.

    `interval` is ours as text.
    """

    method: str
    base: str
    column: Column
    paper: str
    ours: float
    interval: str
    printed: tuple[float, ...]

    @property
    def agrees(self) -> bool:
        """Whether our sign is that of the mean of the printed ones; a difference of 0 agrees with none."""
        return self.ours * sum(self.printed) > 0

    def layout(self) -> tuple[str, ...]:
        """Lay out the cells of a line: method, column, what is printed, ours, its interval, whether signs agree."""
        unit = self.column.scale
        ends = (min(self.printed) / unit, max(self.printed) / unit)
        printed = " to ".join(dict.fromkeys(format_number(end, self.column, sign=True) for end in ends))
        ours = format_number(self.ours, self.column, sign=True)
        sign = "same sign" if self.agrees else "other sign"
        return self.method, self.column.name, f"{printed} ({self.paper})", ours, self.interval, sign


HEAD = ("method", "column", "the authors'", "ours", "95 %", "")


def list_differences(
    contrasts: Sequence[ResultTable], base: str, numbers: Sequence[PublishedNumber]
) -> list[DifferenceBeside]:
    """List every difference to `base` that a paper prints too: a line a method, column and paper, over its tables.

    `contrasts` are tables whose statistics have `change`, the difference to `base`. Means over benchmarks are left out,
    since a paper's are over others, and so are weights that were scored with a wrong activation.
    """
    usable = drop_wrong_activations(numbers)
    papers = list(dict.fromkeys(n.paper for n in usable))
    lines = []
    for method, column, statistic in _iterate_compared(contrasts):
        interval = describe_contrast_interval(statistic, column)
        for paper in papers:
            printed = _list_printed(usable, paper, method, base, column.name)
            if printed and statistic.change is not None:
                lines.append(DifferenceBeside(method, base, column, paper, statistic.change, interval, printed))
    return lines


def _iterate_compared(contrasts: Sequence[ResultTable]) -> Iterator[tuple[str, Column, Statistic]]:
    """Iterate over the numbers of trained methods in columns of one benchmark."""
    for group in contrasts:
        for row in group.rows:
            for column, statistic in zip(group.columns, row.statistics, strict=True):
                is_mean = column_benchmarks(column) != [column.benchmark]
                if statistic and row.method != PRETRAINED and not is_mean:
                    yield row.method, column, statistic


def _list_printed(
    numbers: Sequence[PublishedNumber], paper: str, method: str, base: str, column: str
) -> tuple[float, ...]:
    """List what a paper's tables print of a method less `base` in a column, each difference once."""
    of_paper = [n for n in numbers if n.paper == paper]
    printed: list[float] = []
    for left in _list_published_names(method):
        tables = dict.fromkeys(n.table for n in of_paper if n.method.removeprefix(RELEASED) == left)
        for table in tables:
            for right in _list_published_names(base):
                printed += list_printed_differences(of_paper, paper, table, left, right, column)
    return tuple(dict.fromkeys(printed))


def _list_published_names(method: str) -> tuple[str, ...]:
    """List the names that papers' tables have for a method of ours: plain fine-tuning has several."""
    return PLAIN_FINE_TUNING if method == FINETUNE else (method,)


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

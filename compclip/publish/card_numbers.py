"""The numbers of a model card: each benchmark's headline and metrics with intervals, and the hub's model-index.

Shares are shown in percent. An interval of a number is over its items; one of a difference over seeds and items.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from compclip.publish.source_run import SourceRun
from compclip.report import blind_comparison, statistics, tables
from compclip.report.escape import to_markdown
from compclip.report.statistics import Interval, ItemDifferences
from compclip.report.table_heads import column_mark
from compclip.report.tables import Column, Statistic
from compclip.runs.item_outcomes import CLASSIFICATION, COMPOSITION, RETRIEVAL
from compclip.runs.result_files import FinishedRun

HEADLINE = "headline"
# The hub's names of tasks.
TASKS = {
    CLASSIFICATION: ("zero-shot-image-classification", "Zero-shot image classification"),
    RETRIEVAL: ("image-text-retrieval", "Image-text retrieval"),
    COMPOSITION: ("image-text-matching", "Compositional image-text matching"),
}
BLIND_HEAD = " above the best blind row, 95 % | on sighted items, 95 % |"
HEAD = "| benchmark | metric | this checkpoint | 95 % | seeds | mean ± std | difference to the start, 95 % |"


@dataclass(frozen=True)
class CardNumber:
    """A column's number for the published checkpoint, and over the seeds."""

    column: Column
    value: float
    interval: Interval | None
    statistic: Statistic
    mark: str = ""  # of a number that is not of the whole benchmark
    above: Statistic | None = None  # the difference to the best row that looks at no picture
    sighted: Statistic | None = None  # the number on items that all those rows get wrong


def collect_numbers(source: SourceRun) -> list[CardNumber]:
    """Collect the headline of each benchmark that has one of several metrics, and its metrics without details."""
    numbers, blind = [], source.blind
    trainings = tables.index_runs(source.seeds)
    on_sighted = {t: blind_comparison.select_sighted(run, blind) for t, run in trainings.items()} if blind else {}
    for column in _list_columns(source.run):
        value = tables.column_value(source.run, column)
        statistic = tables.compute_statistic(column, source.seeds, source.pretrained)
        if value is not None and statistic is not None:
            interval, mark = compute_item_interval(source.run, column), column_mark(column, [source.run])
            compared = blind_comparison.is_compared(column, blind)
            above = blind_comparison.compute_above(column, trainings, blind) if compared else None
            sighted = blind_comparison.compute_score(column, on_sighted) if compared else None
            numbers.append(CardNumber(column, value, interval, statistic, mark, above, sighted))
    return numbers


def _list_columns(run: FinishedRun) -> Iterator[Column]:
    for benchmark in run.results:
        members = tables.headline(benchmark, [run])
        if len(members) > 1:
            yield Column(benchmark, HEADLINE, members, members[0].lower, members[0].score)
        for column in tables.list_columns([run], [benchmark]):
            if column in members or not tables.is_detail(column, [run]):
                yield column


def compute_item_interval(run: FinishedRun, column: Column) -> Interval | None:
    """Compute the 95 % interval of a run's number over its items; None where the results have none.

    That of a share ends at 0 and 1.
    """
    value = tables.column_value(run, column)
    items = _collect_items(run, column, 1.0)
    interval = statistics.compute_interval([value], items)[0] if value is not None and items else None
    if interval is None or column.score:
        return interval
    return replace(interval, low=max(interval.low, 0.0), high=min(interval.high, 1.0))


def _collect_items(run: FinishedRun, column: Column, weight: float) -> list[ItemDifferences]:
    """Collect the items of the metrics whose weighted means are the column; empty where one of them has none."""
    members = column.members or tables.mean_members(column, [run])
    if members:
        by_member = [_collect_items(run, member, weight / len(members)) for member in members]
        return [item for of_member in by_member for item in of_member] if all(by_member) else []
    items = run.results[column.benchmark].items.get(column.metric)
    if items is None or len(set(units := statistics.item_units(items))) < 2:
        return []
    return [ItemDifferences(column.benchmark, weight, items.ids, items.values[None], units)]


# --- as text --------------------------------------------------------------------------------------------------


def format_table(numbers: list[CardNumber]) -> str:
    """Format the numbers as a table of Markdown."""
    has_blind = any(number.above for number in numbers)
    lines = [HEAD + BLIND_HEAD * has_blind, "|---|---|---|---|---|---|---|" + "---|---|" * has_blind]
    for number in numbers:
        column, statistic = number.column, number.statistic
        spread = "" if statistic.std is None else f" ± {_show(column, statistic.std)}"
        mean = "" if statistic.seeds < 2 else f"{_show(column, statistic.mean)}{spread}"
        name = " ".join(filter(None, (column.metric, column.arrow, number.mark)))
        cells: tuple[str, ...] = (
            column.benchmark,
            name,
            _show(column, number.value),
            _show_interval(column, number.interval),
            str(statistic.seeds),
            mean,
            _show_difference(column, statistic),
        )
        if has_blind:
            above, sighted = number.above, number.sighted
            of_sighted = (
                f"{_show(column, sighted.mean)} ({_show_interval(column, sighted.difference)})" if sighted else ""
            )
            cells += (_show_difference(column, above) if above else "", of_sighted)
        lines.append(f"| {' | '.join(map(to_markdown, cells))} |")
    return "\n".join(lines)


def _show(column: Column, value: float, sign: str = "") -> str:
    return f"{column.scale * value:{sign}.{column.digits}f}"


def _show_interval(column: Column, interval: Interval | None, sign: str = "") -> str:
    return f"{_show(column, interval.low, sign)} to {_show(column, interval.high, sign)}" if interval else ""


def _show_difference(column: Column, statistic: Statistic) -> str:
    if statistic.change is None:
        return _show_interval(column, statistic.difference, "+")
    basis = statistics.describe_basis(statistic.basis)
    interval = _show_interval(column, statistic.difference, "+")
    around = ", ".join(filter(None, (interval, basis)))
    return _show(column, statistic.change, "+") + (f" ({around})" if around else "")


def make_model_index(numbers: list[CardNumber], source: SourceRun) -> list[Any]:
    """Make the entries of a model-index: the published checkpoint's numbers, shares in percent; no marked ones."""
    from huggingface_hub import EvalResult

    entries = []
    for number in (number for number in numbers if not number.mark):
        column = number.column
        task, title = TASKS.get(source.run.results[column.benchmark].kind, TASKS[COMPOSITION])
        unit = "" if column.score else " (%)"
        entries.append(
            EvalResult(
                task_type=task,
                task_name=title,
                dataset_type=column.benchmark,
                dataset_name=column.benchmark,
                metric_type=column.metric,
                metric_name=f"{column.metric}{unit}",
                metric_value=round(column.scale * number.value, 2 if unit else 4),
            )
        )
    return entries

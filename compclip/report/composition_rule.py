"""The one rule by which a row is better or worse at composition than another, wherever a report says so.

Comp is a mean over benchmarks, and a method can raise it by one of them alone, most easily by the one that is made as
its own negatives are. So a row is better at composition if the interval of its difference in Comp lies above 0, and
does so again without each of its benchmarks in turn; it is worse if all of them lie below 0, and undecided else. A row
that a single benchmark decides rests on that benchmark. All intervals must agree, so none is corrected for their number
(the p value of an intersection-union test is the largest; Berger, 1982), and the rule never decides more than Comp's
interval does. Of a single benchmark nothing can be left out. Every other column is decided by its interval alone.

A row costs what falls for certain of ZS, I2T, T2I or their mean. Trained rows of one seed are compared as they are:
their intervals are over items alone, and say nothing of another seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from compclip.config.cell import PRETRAINED
from compclip.config.columns import SUMMARY
from compclip.report.statistics import Interval
from compclip.report.tables import Column, ResultTable, Statistic

COMP = "Comp"
ABILITIES = ("General", "ZS", "I2T", "T2I")  # what the pretrained model could do before


def leave_out_each(column: Column | None) -> dict[str, Column]:
    """Return Comp without each of its benchmarks, by that benchmark; empty for other columns and a single benchmark."""
    if column is None or column.name != f"{SUMMARY}/{COMP}" or len(column.members) < 2:
        return {}
    columns = {}
    for left_out in column.members:
        members = tuple(member for member in column.members if member is not left_out)
        columns[left_out.benchmark] = Column(SUMMARY, f"{COMP}_without_{left_out.benchmark}", members)
    return columns


def decide(statistic: Statistic, without: Mapping[str, Statistic]) -> Statistic:
    """Return a difference with the rule's verdict; `without` has it again without each benchmark."""
    rests_on = []
    for benchmark, part in without.items():
        if statistic.verdict and part.verdict != statistic.verdict:
            rests_on.append(benchmark)
    verdict = 0 if rests_on else statistic.verdict
    return replace(statistic, verdict=verdict, without=tuple(without.items()), rests_on=tuple(rests_on))


def decide_table(table: ResultTable) -> ResultTable:
    """Return a table of differences whose Comp is decided by the rule, from its columns without a benchmark."""
    comp = table.summaries.get(COMP)
    left_out = leave_out_each(comp)
    if comp is None or not left_out:
        return table
    numbers = {}
    for row in table.rows:
        numbers[row.method] = dict(row.statistics)
        if comp in row.statistics:
            without = {name: row.statistics[c] for name, c in left_out.items() if c in row.statistics}
            numbers[row.method][comp] = decide(row.statistics[comp], without)
    return table.with_statistics(numbers)


def compare_methods(column: Column, compare: Callable[[Column], Statistic | None]) -> Statistic | None:
    """Return two methods' difference in a column by the rule; `compare` gives it of each column that this needs."""
    statistic = compare(column)
    parts = {benchmark: compare(part) for benchmark, part in leave_out_each(column).items()}
    return statistic and decide(statistic, {benchmark: part for benchmark, part in parts.items() if part})


def list_intervals(statistic: Statistic) -> list[Interval]:
    """List the intervals that must agree for a verdict: the difference's own, and those without a benchmark."""
    parts = [part for _, part in statistic.without]
    return [s.difference for s in (statistic, *parts) if s.difference]


def find_best(table: ResultTable) -> str:
    """Return the trained method that is better at composition by most, in a table of differences; "" for none."""
    comp = table.summaries.get(COMP)
    changes = {}
    for row in table.rows:
        statistic = row.statistics.get(comp) if comp else None
        if statistic and statistic.verdict > 0 and row.method != PRETRAINED:
            changes[row.method] = statistic.change or 0.0
    return max(changes, key=lambda method: changes[method], default="")


def weakest_part(statistic: Statistic) -> tuple[str, Statistic] | None:
    """Return the benchmark without which the difference is nearest to none, or most reversed, and that difference."""
    sign = 1 if (statistic.change or 0.0) >= 0 else -1
    return min(statistic.without, key=lambda part: sign * (part[1].change or 0.0), default=None)

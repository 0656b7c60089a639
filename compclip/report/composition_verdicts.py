"""One line a method: does it beat the report's reference at composition, and what does that cost (docs/scenes.md).

It does if SugarCrepe swap, its unseen pairs and SugarCrepe++ swap rise, and SugarCrepe++ replace does not fall: a loss
that learns how its negatives look raises SugarCrepe alone. Rises and falls are intervals that exclude 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from compclip.config.cell import PRETRAINED
from compclip.report.escape import to_markdown
from compclip.report.table_formats import MARK, VERDICT, describe_basis, format_interval, format_number
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic
from compclip.runs.item_outcomes import COMPOSITION

RISING = ("sugarcrepe/swap", "sugarcrepe/swap/unseen_pairs", "sugarcrepe_pp/swap_itt")
NOT_FALLING = ("sugarcrepe_pp/replace_itt",)


class MethodVerdict(NamedTuple):
    """A method, its verdict against the reference (1 beats it, -1 does not, 0 undecided), and why."""

    method: str
    sign: int
    text: str

    @property
    def css(self) -> str:
        """The class of the verdict's word."""
        return VERDICT[self.sign]


def judge_methods(group: ResultTable, reference: str) -> list[MethodVerdict]:
    """Judge each method of a table of differences to the reference; none where the rule's columns are not there."""
    columns = {column.name: column for column in group.columns}
    if not columns.keys() >= {*RISING, *NOT_FALLING}:
        return []
    return [_judge_method(row, group, reference) for row in group.rows if row.method != PRETRAINED]


def _judge_method(row: MethodRow, group: ResultTable, reference: str) -> MethodVerdict:
    results = {column.name: (column, cell) for column, cell in zip(group.columns, row.statistics, strict=True) if cell}
    rule = {name: results[name] for name in (*RISING, *NOT_FALLING) if name in results}
    fallen = [_describe(*pair) for pair in rule.values() if pair[1].verdict < 0]
    open_columns = [_describe(*rule[name]) for name in RISING if name in rule and not rule[name][1].verdict]
    absent = [f"no {name}" for name in (*RISING, *NOT_FALLING) if name not in rule]
    if fallen:
        sign, text = -1, f"does not beat {reference} at composition: {', '.join(fallen)}"
    elif open_columns or absent:
        sign, text = 0, f"undecided against {reference} at composition: {', '.join(open_columns + absent)}"
    else:
        sign, text = 1, f"beats {reference} at composition: {', '.join(_describe(*rule[name]) for name in RISING)}"
    return MethodVerdict(row.method, sign, f"{text}. {_describe_cost(list(results.values()), group)}")


def _describe_cost(results: Sequence[tuple[Column, Statistic]], group: ResultTable) -> str:
    """Describe what falls of what a model could do before: retrieval and naming."""
    kinds = {name: result.kind for run in group.runs for name, result in run.results.items()}
    before = [pair for pair in results if kinds.get(pair[0].benchmark, COMPOSITION) != COMPOSITION]
    fallen = [_describe(*pair) for pair in before if pair[1].verdict < 0]
    if not before:
        return "What it costs was not measured."
    return f"It costs: {', '.join(fallen)}." if fallen else "No column of retrieval or naming falls for certain."


def _describe(column: Column, cell: Statistic) -> str:
    """Describe a difference: its column, mark, value, interval, and what that is over where it is less than usual."""
    value = format_number(cell.change or 0.0, column, sign=True)
    ends = format_interval(cell.difference, column) if cell.difference else ""
    return " ".join(filter(None, (column.name, MARK[cell.verdict], value, ends, describe_basis(cell))))


def format_markdown(group: ResultTable, reference: str) -> str:
    """Format the verdicts as a list in Markdown; empty without any."""
    lines = [f"- **{to_markdown(v.method)}** {to_markdown(v.text)}\n" for v in judge_methods(group, reference)]
    return "\n" + "".join(lines) if lines else ""

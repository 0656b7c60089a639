"""What each method changes, in words made from the tables: nothing is said that an interval does not carry.

A change is a difference to the pretrained model whose interval excludes 0, after the report's correction, if any.
Beside an improvement in composition stands what is left of it on sighted items (`report.blind_comparison`).
A method beats the reference at composition if SugarCrepe swap, its unseen pairs and SugarCrepe++ swap rise, and
SugarCrepe++ replace does not fall: a loss that learns how its negatives look raises SugarCrepe alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from compclip.base.messages import format_count
from compclip.config.cell import PRETRAINED
from compclip.config.columns import SUMMARY
from compclip.report.escape import format_name, to_markdown
from compclip.report.table_formats import MARK, VERDICT, describe_basis, format_interval, format_number
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic
from compclip.runs.item_outcomes import COMPOSITION

MOST = 2  # columns that a sentence names; the others are counted
Statistics = Mapping[str, Statistic]  # of one row, by column


class MethodStory(NamedTuple):
    """A method and its sentences."""

    method: str
    sentences: tuple[str, ...]


def tell_stories(
    table: ResultTable, gains: ResultTable | None = None, contrasts: ResultTable | None = None, reference: str = ""
) -> list[MethodStory]:
    """Describe every method of a table that has a difference to the pretrained model, in the table's order.

    Means over benchmarks are left out: their parts are there. `gains` are differences on sighted items, `contrasts`
    those to the reference.
    """
    columns = {column.name: column for column in table.columns if column.benchmark != SUMMARY}
    kinds = {name: result.kind for run in table.runs for name, result in run.results.items()}
    composition = {name for name, column in columns.items() if kinds.get(column.benchmark) == COMPOSITION}
    stories = []
    for row in table.rows:
        changes = _select_row(table, row.method)
        if row.method == PRETRAINED or not changes:
            continue
        sighted = _select_row(gains, row.method)
        to_reference = _select_row(contrasts, row.method)
        sentences = (
            _describe_composition({n: s for n, s in changes.items() if n in composition}, columns, sighted),
            _describe_abilities({n: s for n, s in changes.items() if n not in composition}, columns),
            _describe_reference(to_reference, columns, reference) if row.method != reference else "",
        )
        stories.append(MethodStory(row.method, tuple(filter(None, sentences))))
    return stories


def _select_row(table: ResultTable | None, method: str) -> Statistics:
    """Return a method's differences of a table by column; {} without them."""
    for row in table.rows if table else ():
        if table and row.method == method:
            pairs = zip(table.columns, row.statistics, strict=True)
            return {c.name: s for c, s in pairs if s and s.difference and c.benchmark != SUMMARY}
    return {}


def _describe_composition(changes: Statistics, columns: Mapping[str, Column], sighted: Statistics) -> str:
    if not changes:
        return ""
    risen, fallen = _split(changes)
    texts = []
    if risen:
        texts.append(f"improves {_list_changes(risen, columns, sighted)}")
    if fallen:
        texts.append(f"worsens {_list_changes(fallen, columns)}")
    if not texts:
        return f"In composition no change is decided ({_count(changes)})."
    remaining = len(changes) - len(risen) - len(fallen)
    undecided = f"; undecided: {remaining} of {len(changes)} columns" if remaining else ""
    return f"In composition it {' and '.join(texts)}{undecided}."


def _describe_abilities(changes: Statistics, columns: Mapping[str, Column]) -> str:
    """Describe retrieval and naming: what the pretrained model could do before."""
    if not changes:
        return ""
    risen, fallen = _split(changes)
    cost = f"worsens {_list_changes(fallen, columns)}" if fallen else "worsens nothing for certain"
    gain = f", and improves {_list_changes(risen, columns)}" if risen else ""
    return f"In retrieval and naming ({_count(changes)}) it {cost}{gain}."


def _describe_reference(changes: Statistics, columns: Mapping[str, Column], reference: str) -> str:
    if not changes:
        return ""
    risen, fallen = _split(changes)
    remaining = len(changes) - len(risen) - len(fallen)
    texts = [f"is better in {_list_changes(risen, columns)}"] if risen else []
    texts += [f"is worse in {_list_changes(fallen, columns)}"] if fallen else []
    texts += [f"cannot be told apart in {remaining} of {_count(changes)}"] if remaining else []
    return f"Against {reference} it {', '.join(texts)}."


def _split(changes: Statistics) -> tuple[Statistics, Statistics]:
    """Return what is better and what is worse for certain, the largest first."""
    ordered = sorted(changes.items(), key=lambda item: -abs(item[1].change or 0.0))
    return {n: s for n, s in ordered if s.verdict > 0}, {n: s for n, s in ordered if s.verdict < 0}


def _list_changes(changes: Statistics, columns: Mapping[str, Column], sighted: Statistics | None = None) -> str:
    texts = []
    for name, statistic in list(changes.items())[:MOST]:
        text = f"{format_name(columns[name].name)} {format_number(statistic.change or 0.0, columns[name], sign=True)}"
        if sighted and (there := sighted.get(name)):
            value = format_number(there.change or 0.0, columns[name], sign=True)
            text += f" (sighted {value if there.verdict else 'undecided'})"
        texts.append(text)
    if len(changes) > MOST:
        texts.append(f"{len(changes) - MOST} more")
    return ", ".join(texts)


def _count(changes: Statistics) -> str:
    return format_count(len(changes), "column")


def format_stories_markdown(stories: Sequence[MethodStory]) -> str:
    """Format the stories as a list in Markdown; empty without any."""
    return "".join(f"- **{to_markdown(s.method)}**: {to_markdown(' '.join(s.sentences))}\n" for s in stories)


# --- does a method beat the report's reference at composition, and at what cost (docs/scenes.md)

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
    fallen = [_describe_difference(*pair) for pair in rule.values() if pair[1].verdict < 0]
    open_columns = [_describe_difference(*rule[name]) for name in RISING if name in rule and not rule[name][1].verdict]
    absent = [f"no {name}" for name in (*RISING, *NOT_FALLING) if name not in rule]
    if fallen:
        sign = -1
        text = f"does not beat {reference} at composition: {', '.join(fallen)}"
    elif open_columns or absent:
        sign = 0
        text = f"undecided against {reference} at composition: {', '.join(open_columns + absent)}"
    else:
        sign = 1
        text = f"beats {reference} at composition: {', '.join(_describe_difference(*rule[name]) for name in RISING)}"
    return MethodVerdict(row.method, sign, f"{text}. {_describe_cost(list(results.values()), group)}")


def _describe_cost(results: Sequence[tuple[Column, Statistic]], group: ResultTable) -> str:
    """Describe what falls of what a model could do before: retrieval and naming."""
    kinds = {name: result.kind for run in group.runs for name, result in run.results.items()}
    before = [pair for pair in results if kinds.get(pair[0].benchmark, COMPOSITION) != COMPOSITION]
    fallen = [_describe_difference(*pair) for pair in before if pair[1].verdict < 0]
    if not before:
        return "What it costs was not measured."
    return f"It costs: {', '.join(fallen)}." if fallen else "No column of retrieval or naming falls for certain."


def _describe_difference(column: Column, cell: Statistic) -> str:
    """Describe a difference: its column, mark, value, interval, and what that is over where it is less than usual."""
    value = format_number(cell.change or 0.0, column, sign=True)
    ends = format_interval(cell.difference, column) if cell.difference else ""
    return " ".join(filter(None, (column.name, MARK[cell.verdict], value, ends, describe_basis(cell))))


def format_verdicts_markdown(group: ResultTable, reference: str) -> str:
    """Format the verdicts as a list in Markdown; empty without any."""
    lines = [f"- **{to_markdown(v.method)}** {to_markdown(v.text)}\n" for v in judge_methods(group, reference)]
    return "\n" + "".join(lines) if lines else ""

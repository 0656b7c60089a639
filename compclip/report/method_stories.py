"""What each method changes, in words made from the tables: nothing is said that an interval does not carry.

A change is a difference to the pretrained model whose interval excludes 0, after the report's correction, if any.
Beside an improvement in composition stands what is left of it on sighted items (`report.blind_comparison`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from compclip.base.number_text import format_count
from compclip.config.cell import PRETRAINED
from compclip.config.columns import SUMMARY
from compclip.report.escape import to_markdown
from compclip.report.readable_names import format_name
from compclip.report.table_formats import format_number
from compclip.report.tables import Column, ResultTable, Statistic
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
        sighted, to_reference = _select_row(gains, row.method), _select_row(contrasts, row.method)
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


def format_markdown(stories: Sequence[MethodStory]) -> str:
    """Format the stories as a list in Markdown; empty without any."""
    return "".join(f"- **{to_markdown(s.method)}**: {to_markdown(' '.join(s.sentences))}\n" for s in stories)

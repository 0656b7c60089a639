"""What is seen first: which method is best, by how much, how sure that is, and what it costs.

Rows are compared with the report's reference where a table has it, else with the pretrained model, and nothing is said
that an interval does not carry, after the report's correction, if any. A method beats the reference at composition if
SugarCrepe swap, its unseen pairs and SugarCrepe++ swap rise, and SugarCrepe++ replace does not fall: a loss that learns
how its negatives look raises SugarCrepe alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from compclip.config.cell import PRETRAINED
from compclip.config.columns import SUMMARY
from compclip.report import report_figures, table_heads, tables
from compclip.report.escape import format_name, join_counts
from compclip.report.table_formats import MARK, describe_interval, format_interval, format_number
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic
from compclip.runs.item_outcomes import COMPOSITION

AXES = {
    "Comp": "composition", "General": "general ability", "ZS": "zero-shot",
    "I2T": "image-to-text retrieval", "T2I": "text-to-image retrieval",
}  # fmt: skip
ABILITIES = ("General", "ZS", "I2T", "T2I")  # the first that a table has is its second axis
MOST_COLUMNS = 8  # of the headline table
LEGEND = (
    "Mean over seeds, in percent; ▲ ▼: better or worse than {}, where the 95 % interval of the difference excludes 0; "
    "bold: the best of a column, where its difference to every other row is decided."
)
NO_DIFFERENCE = Statistic(0.0, None, 0)
MOST_SENTENCES = 8  # more are folded
MOST_NAMES = 2  # of rows that cannot be told from the best; more are counted


@dataclass(frozen=True)
class ComparedTable:
    """A table whose differences are those to the row `reference`, and the columns of its one or two axes in words."""

    table: ResultTable
    reference: str
    axes: Mapping[str, Column]

    @property
    def label(self) -> str:
        """The reference in words: random weights are not called pretrained."""
        is_random = self.reference == PRETRAINED and tables.has_random_weights(self.table)
        return table_heads.RANDOM if is_random else self.reference

    @property
    def rows(self) -> list[MethodRow]:
        """The rows beside the reference, the best at the first axis first; those without a difference last."""
        compared: list[MethodRow] = []
        undetermined: list[MethodRow] = []
        first = next(iter(self.axes.values()))
        for row in self.table.rows:
            if row.method != self.reference:
                statistic = row.statistics.get(first)
                (compared if statistic and statistic.change is not None else undetermined).append(row)
        compared.sort(key=lambda row: row.statistics[first].change or 0.0, reverse=not first.lower)
        return compared + undetermined

    @property
    def sentences(self) -> list[tuple[str, str]]:
        """What each method changes on the axes, in one short sentence."""
        sentences = []
        for row in self.rows:
            texts: list[str] = []
            for label, column in self.axes.items():
                texts.append(_describe_change(label, column, row.statistics.get(column), is_cost=bool(texts)))
            sentences.append((row.method, ", ".join(texts)))
        return sentences


def compare_rows(group: ResultTable, contrasts: ResultTable | None, reference: str) -> ComparedTable | None:
    """Compare a table's rows with its row `reference`, else with the pretrained model; None without columns.

    `contrasts` are the differences to that reference.
    """
    if not group.columns:
        return None
    base = PRETRAINED
    if contrasts and contrasts.rows:
        base = reference
        contrast_of = {(row.method, column): statistic for row, column, statistic in contrasts.numbers()}
        statistics: dict[str, dict[Column, Statistic]] = {row.method: {} for row in group.rows}
        for row, column, statistic in group.numbers():
            statistics[row.method][column] = replace(
                contrast_of.get((row.method, column), NO_DIFFERENCE),
                mean=statistic.mean,
                std=statistic.std,
                seeds=statistic.seeds,
                rank=statistic.rank,
                equal_to=statistic.equal_to,
            )
        group = group.with_statistics(statistics)
    summaries = group.summaries
    axes = {}
    for names in (("Comp",), ABILITIES):
        for name in names:
            if name in summaries:
                axes[AXES[name]] = summaries[name]
                break
    return ComparedTable(group, base, axes or {format_name(group.columns[0].name): group.columns[0]})


def select_headline(table: ResultTable) -> ResultTable:
    """Return a table with the columns that are read first: the summaries, then the first of `report.columns`."""
    first = [table.summaries[name] for name in AXES if name in table.summaries]
    measured = [column for column in table.columns if column.benchmark != SUMMARY]
    return table.select((*first, *measured)[:MOST_COLUMNS])


def describe_best(compared: ComparedTable) -> str:
    """Say which method is best on the first axis, by how much, and from which others it cannot be told."""
    label, column = next(iter(compared.axes.items()))
    trained = [row for row in compared.rows if row.method != PRETRAINED]
    best = trained[0].statistics.get(column) if trained else None
    if best is None or best.change is None:
        return "There is no fine-tuned method, or no reference, to compare."
    name = trained[0].method
    size = format_number(best.change, column, sign=True)
    ends = f" {format_interval(best.difference, column)}" if best.difference else ""
    if best.verdict <= 0:
        return f"No method is better at {label} than {compared.label} for certain; highest: {name}, {size}{ends}"
    text = f"Best at {label}: {name}, {size} over {compared.label}{ends}"
    equals = []
    for row in compared.table.rows:
        statistic = row.statistics.get(column)
        if statistic and statistic.equal_to == name and row.method != name:
            equals.append(row.method)
    if len(equals) > MOST_NAMES:
        return f"{text}; {len(equals)} others cannot be told from it"
    return f"{text}; {' and '.join(equals)} cannot be told from it" if equals else text


def _describe_change(label: str, column: Column, statistic: Statistic | None, is_cost: bool) -> str:
    if statistic is None or statistic.change is None:
        return f"{label} not measured"
    size = format_number(statistic.change, column, sign=True)
    if statistic.verdict > 0:
        return f"better at {label} ({size})"
    if statistic.verdict < 0:
        return f"costs {label} ({size})" if is_cost else f"worse at {label} ({size})"
    return f"costs nothing that can be seen ({size})" if is_cost else f"{label} undecided ({size})"


def draw_forest(compared: ComparedTable, standalone: bool = False) -> Markup:
    """Draw the differences on the axes; where rows are many they have the numbers of the trade-off plot."""
    rows = compared.rows
    numbers = report_figures.number_methods(rows)
    drawn = []
    for row in rows:
        label = table_heads.row_label(row, compared.table)
        number = f" ({numbers[row.method]})" if numbers else ""
        drawn.append((f"{label}{number}", [row.statistics.get(column) for column in compared.axes.values()]))
    return report_figures.draw_forest(drawn, compared.axes, compared.label, standalone)


def draw_tradeoffs(compared: ComparedTable) -> list[Markup]:
    """Draw compositionality against each other summary column, the table's own axes first."""
    numbers = report_figures.number_methods(compared.rows)
    labels = {row.method: table_heads.row_label(row, compared.table) for row in compared.table.rows}
    short = numbers | {compared.reference: compared.label} if numbers else labels
    points = report_figures.collect_tradeoffs(compared.table)
    figures = []
    for name in ABILITIES:
        if name in points:
            figures.append(report_figures.draw_tradeoff(points[name], name, compared.reference, short, bool(numbers)))
    return figures


def count_decided(groups: Sequence[ResultTable]) -> str:
    """Say how many differences of some tables are better, worse and open."""
    words = {1: "better", -1: "worse", 0: "undecided"}
    counts = dict.fromkeys(words.values(), 0)
    for group in groups:
        for _, _, statistic in group.numbers():
            if statistic.difference:
                counts[words[statistic.verdict]] += 1
    return join_counts(counts, skip_zero=False)


# --- does a method beat the report's reference at composition, and at what cost (docs/scenes.md)

RISING = ("sugarcrepe/swap", "sugarcrepe/swap/unseen_pairs", "sugarcrepe_pp/swap_itt")
NOT_FALLING = ("sugarcrepe_pp/replace_itt",)


def judge_methods(group: ResultTable, reference: str) -> dict[str, str]:
    """Judge each method of a table of differences to the reference; none where the rule's columns are not there."""
    columns = {column.name: column for column in group.columns}
    if not columns.keys() >= {*RISING, *NOT_FALLING}:
        return {}
    rule = [columns[name] for name in (*RISING, *NOT_FALLING)]
    trained = [row for row in group.rows if row.method != PRETRAINED]
    return {row.method: f"{_judge_row(row, rule, reference)}. {_describe_cost(row, group)}" for row in trained}


def _judge_row(row: MethodRow, rule: Sequence[Column], reference: str) -> str:
    fallen = []
    risen: list[str] = []
    open_columns: list[str] = []
    absent = []
    for column in rule:
        statistic = row.statistics.get(column)
        if statistic is None:
            absent.append(f"no {column.name}")
        elif statistic.verdict < 0:
            fallen.append(_describe_difference(column, statistic))
        elif column.name in RISING:
            (risen if statistic.verdict else open_columns).append(_describe_difference(column, statistic))
    if fallen:
        return f"does not beat {reference} at composition: {', '.join(fallen)}"
    if open_columns or absent:
        return f"undecided against {reference} at composition: {', '.join(open_columns + absent)}"
    return f"beats {reference} at composition: {', '.join(risen)}"


def _describe_cost(row: MethodRow, group: ResultTable) -> str:
    """Describe what falls of what a model could do before: retrieval and naming."""
    kinds = tables.benchmark_kinds(group.runs)
    is_measured = False
    fallen = []
    for column in group.columns:
        if column in row.statistics and kinds.get(column.benchmark, COMPOSITION) != COMPOSITION:
            is_measured = True
            if row.statistics[column].verdict < 0:
                fallen.append(_describe_difference(column, row.statistics[column]))
    if not is_measured:
        return "What it costs was not measured."
    return f"It costs: {', '.join(fallen)}." if fallen else "No column of retrieval or naming falls for certain."


def _describe_difference(column: Column, cell: Statistic) -> str:
    """Describe a difference: its column, mark, value, interval, and what that is over where it is less than usual."""
    value = format_number(cell.change or 0.0, column, sign=True)
    return " ".join(filter(None, (column.name, MARK[cell.verdict], value, describe_interval(cell, column))))

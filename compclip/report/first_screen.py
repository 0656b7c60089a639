"""What is seen first: which method is best, by how much, how sure that is, what it rests on, and what it costs.

Rows are compared with the report's reference where a table has it, else with the pretrained model, by the one rule of
`composition_rule`. Heading, sentences, figures and folds read the verdicts that it gave, and say nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from compclip.config.cell import PRETRAINED
from compclip.config.columns import SUMMARY
from compclip.report import composition_rule, report_figures, table_heads, tables
from compclip.report.composition_rule import ABILITIES, COMP
from compclip.report.escape import format_name, join_counts
from compclip.report.statistics import ITEMS_ALONE
from compclip.report.table_formats import format_interval, format_number
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic

AXES = {
    "Comp": "composition", "General": "general ability", "ZS": "zero-shot",
    "I2T": "image-to-text retrieval", "T2I": "text-to-image retrieval",
}  # fmt: skip
MOST_COLUMNS = 8  # of the headline table
LEGEND = (
    "Mean over seeds, in percent; ▲ ▼: better or worse than {}, where the 95 % interval of the difference excludes 0, "
    "of Comp also without each of its benchmarks in turn; bold: the best of a column, where its difference to every "
    "other row is decided."
)
NO_DIFFERENCE = Statistic(0.0, None, 0)
MOST_SENTENCES = 8  # more are folded
MOST_NAMES = 2  # of rows that cannot be told from the best; more are counted
KINDRED = ", whose negatives are made like its own"
SameNegatives = Mapping[str, Collection[str]]  # by method the benchmarks that are made as its negatives are


@dataclass(frozen=True)
class ComparedTable:
    """A table whose differences are those to the row `reference`, and the columns of its one or two axes in words.

    `is_chosen`: `report.columns` names columns. `is_drawn`: a benchmark shows drawings, which do not rank methods.
    """

    table: ResultTable
    reference: str
    axes: Mapping[str, Column]
    is_chosen: bool = False
    is_drawn: bool = False
    kindred: SameNegatives = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The reference in words: random weights are not called pretrained."""
        is_random = self.reference == PRETRAINED and tables.has_random_weights(self.table)
        return table_heads.RANDOM if is_random else self.reference

    @property
    def column(self) -> Column:
        """The column of the first axis, by which rows are ordered."""
        return next(iter(self.axes.values()))

    @property
    def rows(self) -> list[MethodRow]:
        """The rows beside the reference, the best at the first axis first; those without a difference last."""
        return order_rows([row for row in self.table.rows if row.method != self.reference], self.column)

    @property
    def sentences(self) -> list[tuple[str, str]]:
        """What each method changes, in one sentence."""
        return [(row.method, describe_row(row, self.table, self.kindred)) for row in self.rows]


def order_rows(rows: Sequence[MethodRow], column: Column) -> list[MethodRow]:
    """Order rows by their difference in a column, the best first; those without a difference last."""
    compared: list[MethodRow] = []
    undetermined: list[MethodRow] = []
    for row in rows:
        statistic = row.statistics.get(column)
        (compared if statistic and statistic.change is not None else undetermined).append(row)
    compared.sort(key=lambda row: row.statistics[column].change or 0.0, reverse=not column.lower)
    return compared + undetermined


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
    return ComparedTable(group, base, choose_axes(group))


def choose_axes(table: ResultTable) -> dict[str, Column]:
    """Choose the columns of the first screen's one or two axes, by their names in words."""
    axes = {}
    for names in ((COMP,), ABILITIES):
        for name in names:
            if name in table.summaries:
                axes[AXES[name]] = table.summaries[name]
                break
    return axes or {format_name(table.columns[0].name): table.columns[0]}


def select_headline(compared: ComparedTable) -> ResultTable:
    """Return the columns that are read first: the summaries, and the benchmarks that Comp is the mean of.

    `report.columns` stands in place of the benchmarks where all of it fits. Benchmarks that a row rests on come first.
    """
    table = compared.table
    first = [table.summaries[name] for name in AXES if name in table.summaries]
    comp = table.summaries.get(COMP)
    parts = comp.members if comp else ()
    chosen = [column for column in table.columns if column.benchmark != SUMMARY and column not in parts]
    if not comp or (compared.is_chosen and len(first) + len(chosen) <= MOST_COLUMNS):
        return table.select((*first, *chosen)[:MOST_COLUMNS])
    if len(first) + len(parts) > MOST_COLUMNS:
        first = [column for column in first if column.metric != "General"]  # the mean of three others
    supports = {name for row in table.rows if comp in row.statistics for name in row.statistics[comp].rests_on}
    ordered = sorted(parts, key=lambda part: part.benchmark not in supports)
    return table.select((*first, *ordered)[:MOST_COLUMNS])


def list_notes(compared: ComparedTable) -> list[str]:
    """List what a reader of the headline table must know of Comp: benchmarks not shown, few items, one seed."""
    comp = compared.table.summaries.get(COMP)
    notes = []
    if comp:
        shown = {column.benchmark for column in select_headline(compared).columns}
        shown &= {member.benchmark for member in comp.members}
        if len(shown) < len(comp.members):
            notes.append(f"Comp is the mean over {len(comp.members)} benchmarks, {len(shown)} of which are shown")
        notes += table_heads.describe_small_tests(compared.table, comp)
        notes += _describe_remarks(compared, [member.benchmark for member in comp.members])
    if _is_one_run(compared):
        notes.append("one run of each method: intervals are over items alone, and another seed may differ")
    return notes


def _describe_remarks(compared: ComparedTable, benchmarks: Sequence[str]) -> list[str]:
    """Say what benchmarks say of themselves, and which rows train on texts made like theirs."""
    notes = []
    for name in dict.fromkeys(benchmarks):
        if compared.remarks.get(name):
            same = [row.method for row in compared.rows if name in compared.kindred.get(row.method, ())]
            trained = f"; {', '.join(same)} trained on texts of the same rules" if same else ""
            notes.append(f"{name}: {compared.remarks[name]}{trained}")
    return notes


# --- the heading


def describe_page(tables_of_page: Sequence[ComparedTable]) -> str:
    """Return the heading of a page: the best of its table, or how many tables it has."""
    if len(tables_of_page) == 1:
        return describe_best(tables_of_page[0])
    drawn = "On drawings: compositional" if any(t.is_drawn for t in tables_of_page) else "Compositional"
    return f"{drawn} fine-tuning: {len(tables_of_page)} tables"


def describe_best(compared: ComparedTable) -> str:
    """Say which method is best on the first axis, by how much, and what else must be said of that."""
    text = _describe_order(compared)
    return f"On drawings, {text[0].lower()}{text[1:]}" if compared.is_drawn else text


def _describe_order(compared: ComparedTable) -> str:
    column = compared.column
    trained = [row for row in compared.rows if row.method != PRETRAINED]
    highest = trained[0].statistics.get(column) if trained else None
    if highest is None or highest.change is None:
        return "There is no fine-tuned method, or no reference, to compare."
    label = next(iter(compared.axes)) + _describe_scope(compared)
    better = [row for row in trained if column in row.statistics and row.statistics[column].verdict > 0]
    if not better:
        text = f"No method is better at {label} than {compared.label} for certain; highest: {trained[0].method}, "
        return text + describe_size(highest, column) + _describe_support(highest, ", which rests on")
    name = better[0].method
    best = better[0].statistics[column]
    text = f"Best at {label}: {name}, {format_number(best.change or 0.0, column, sign=True)} over {compared.label}"
    text += f" {format_interval(best.difference, column)}" if best.difference else ""
    equals = []
    resting = []
    for row in trained:
        statistic = row.statistics.get(column)
        if statistic and statistic.rests_on and (statistic.change or 0.0) > (best.change or 0.0):
            change = format_number(statistic.change or 0.0, column, sign=True)
            resting.append(f"{row.method}, {change},{_describe_support(statistic, ' rests on')}")
        elif statistic and statistic.equal_to == name and row.method != name:
            equals.append(row.method)
    if equals:
        names = " and ".join(equals) if len(equals) <= MOST_NAMES else f"{len(equals)} others"
        text += f"; {names} cannot be told from it"
    return "; ".join([text, *resting])


def _describe_scope(compared: ComparedTable) -> str:
    """Say of what Comp is known, where that is a single benchmark, and of how many runs."""
    scope = ""
    if compared.column.benchmark == SUMMARY and len(compared.column.members) == 1:
        name = compared.column.members[0].benchmark
        coverage = table_heads.benchmark_coverage(compared.table.select(compared.column.members)).get(name)
        items = f", {coverage.text}" if coverage and coverage.scored < table_heads.SMALL_TEST else ""
        scope = f" (the benchmark {name} alone{items})"
    return f"{scope}, of one run each" if _is_one_run(compared) else scope


def _is_one_run(compared: ComparedTable) -> bool:
    """Return whether the methods' runs share one seed: their intervals say nothing of another."""
    for row in compared.rows:
        statistic = row.statistics.get(compared.column)
        if statistic and statistic.basis == ITEMS_ALONE and any(run.curve for run in row.runs):
            return True
    return False


def _describe_support(statistic: Statistic, words: str) -> str:
    """Name the benchmarks that a difference rests on, behind `words`; empty where it rests on none."""
    names = statistic.rests_on
    return f"{words} the benchmark{'s' if len(names) > 1 else ''} {' and '.join(names)}" if names else ""


# --- one sentence a row, wherever its differences stand


def describe_rows(table: ResultTable, kindred: SameNegatives) -> list[tuple[str, str]]:
    """Describe each row of a table of differences, the best first; rows that are not compared are left out."""
    column = next(iter(choose_axes(table).values()))
    rows = [row for row in table.rows if any(s.change is not None for s in row.statistics.values())]
    return [(row.method, describe_row(row, table, kindred)) for row in order_rows(rows, column)]


def describe_row(row: MethodRow, table: ResultTable, kindred: SameNegatives) -> str:
    """Say what a row changes at composition, what that rests on, and what it costs."""
    label, column = next(iter(choose_axes(table).items()))
    text = _describe_gain(label, column, row.statistics.get(column), kindred.get(row.method, ()))
    abilities = {name: c for name, c in table.summaries.items() if name in ABILITIES and c != column}
    return f"{text}; {_describe_abilities(row, abilities)}" if abilities else text


def _describe_gain(label: str, column: Column, statistic: Statistic | None, kindred: Collection[str]) -> str:
    if statistic is None or statistic.change is None:
        return f"{label} not measured"
    if statistic.rests_on:
        names = statistic.rests_on
        text = f"{label} undecided: {describe_size(statistic, column)}, but "
    else:
        weakest = composition_rule.weakest_part(statistic) if statistic.verdict else None
        names = (weakest[0],) if weakest else ()
        word = {1: f"better at {label}", -1: f"worse at {label}", 0: f"{label} undecided"}[statistic.verdict]
        text = f"{word}: {describe_size(statistic, column)}"
    parts = []
    for benchmark, part in statistic.without:
        if benchmark in names or benchmark in kindred:
            note = KINDRED if benchmark in kindred else ""
            still = "still " if statistic.verdict and part.verdict == statistic.verdict else ""
            change = format_number(part.change or 0.0, column, sign=True)
            parts.append(f"{still}{change} without the benchmark {benchmark}{note}")
    return text + ("" if statistic.rests_on or not parts else ", ") + " and ".join(parts)


def _describe_abilities(row: MethodRow, columns: Mapping[str, Column]) -> str:
    """Say what falls for certain of the general columns, and what the interval of the first leaves possible."""
    name = next(name for name in ABILITIES if name in columns)
    column = columns[name]
    fallen = []
    for ability in ABILITIES:
        statistic = row.statistics.get(columns[ability]) if ability in columns else None
        if statistic and statistic.verdict < 0:
            if ability == name:
                fallen.append(f"{AXES[name]} {describe_size(statistic, column)}")
            else:
                fallen.append(f"{ability} {format_number(statistic.change or 0.0, columns[ability], sign=True)}")
    texts = [f"costs {', '.join(fallen)}"] if fallen else []
    statistic = row.statistics.get(column)
    if statistic is None or statistic.change is None:
        texts.append(f"{AXES[name]} not measured")
    elif statistic.verdict > 0:
        texts.append(f"better at {AXES[name]}: {describe_size(statistic, column)}")
    elif statistic.verdict == 0:
        texts.append(f"{AXES[name]} {_describe_range(statistic, column)}")
    return "; ".join(texts)


def _describe_range(statistic: Statistic, column: Column) -> str:
    """Say between what an undecided change lies."""
    interval = statistic.difference
    if interval is None:
        return f"undecided: {describe_size(statistic, column)}"
    if interval.low == interval.high == 0:
        return "the same on every item"
    low, high = (format_number(end, column, sign=True) for end in (interval.low, interval.high))
    return f"between {low} and {high}: {'a loss is possible' if interval.low < 0 else 'undecided'}"


def describe_size(statistic: Statistic, column: Column) -> str:
    """Describe a difference: its value and its interval."""
    size = format_number(statistic.change or 0.0, column, sign=True)
    return f"{size} {format_interval(statistic.difference, column)}" if statistic.difference else size


# --- figures and counts


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

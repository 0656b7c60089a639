"""One self-contained page: tables, plots and details as text that the template lays out, and the files beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from compclip.base.files import write_atomic, write_json
from compclip.config.cell import PRETRAINED
from compclip.config.columns import SUMMARY
from compclip.config.sections import WHOLE
from compclip.prepare.record_writer import BenchmarkRecords
from compclip.report import (
    blind_comparison,
    claims,
    composition_rule,
    decisions,
    first_screen,
    published_numbers,
    report_figures,
    row_items,
    run_details,
    table_formats,
    table_heads,
    tables,
    trajectories,
    tuned_rows,
    validation_curves,
)
from compclip.report.blind_comparison import BlindTable
from compclip.report.claims import Claim, Finding
from compclip.report.escape import format_name, hide_in_page, to_markdown
from compclip.report.first_screen import ComparedTable, SameNegatives
from compclip.report.published_numbers import OfficialBenchmarks, PaperComparison, PublishedNumber
from compclip.report.run_details import MissingResult
from compclip.report.table_formats import layout_differences, layout_means, layout_scores
from compclip.report.table_heads import SHARED, SharedPictures
from compclip.report.tables import Column, MethodRow, ResultTable, RowMarks, RowName
from compclip.runs import run_folder
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.result_files import FinishedRun

TEXT_TOWER = "finetune.text"  # plain fine-tuning of the text tower alone
ITEMS = 3  # won, and lost, of each method
MANY = 25  # methods; the head of the page counts more


@dataclass(frozen=True)
class GridResults:
    """What the grid's runs gave: `runs` and `blind` have the items of the split that is shown, `whole_runs` all items.

    `missing` is what is absent. `records` are what benchmarks asked, with pictures below `root`. `tuned` says which
    rows were tuned on what is shown, `tuning` what was spent on the methods' parameters, and what was chosen.
    """

    runs: Sequence[FinishedRun]
    benchmarks: Sequence[str]
    missing: Sequence[MissingResult] = ()
    whole_runs: Sequence[FinishedRun] = ()
    blind: Mapping[str, Sequence[FinishedRun]] = field(default_factory=dict)  # by data set
    lines: Sequence[trajectories.WiseFtLine] = ()
    curves: Sequence[trajectories.TrainingCurve] = ()
    overlaps: Mapping[str, SharedPictures] = field(default_factory=dict)  # what each data set shares with benchmarks
    records: Mapping[str, BenchmarkRecords] = field(default_factory=dict)
    tuned: Mapping[RowName, str] = field(default_factory=dict)
    tuning: Sequence[tuned_rows.TunedMethod] = ()
    kindred: SameNegatives = field(default_factory=dict)  # benchmarks that are made as a method's negatives are
    remarks: Mapping[str, str] = field(default_factory=dict)  # of benchmarks, where their numbers are compared
    root: Path = Path()


@dataclass(frozen=True)
class Literature:
    """What papers print: their numbers, the benchmarks that these are of, and findings."""

    numbers: Sequence[PublishedNumber] = ()
    official: OfficialBenchmarks = field(default_factory=OfficialBenchmarks)
    claims: Sequence[Claim] = ()


@dataclass(frozen=True)
class PageSettings:
    """How the page is made: the chosen columns, and what rows are compared with.

    All methods are compared with `reference`, beside the pretrained model; "" for none. `correction` is over all
    comparisons of a table. The page shows `items` won, and lost, of each method. `notice` is what a reader must know
    before any number.
    """

    columns: Sequence[str] | None = None
    reference: str = ""
    correction: str = ""
    split: PictureSplit = field(default_factory=PictureSplit)
    items: int = ITEMS
    notice: str = ""


@dataclass(frozen=True)
class PageTables:
    """The tables: `main` has summary and chosen columns, `subsets` groups of items, `other_metrics` the rest.

    `headline` is `main` with the benchmarks that Comp is the mean of, `left_out` has Comp without each of them.
    `contrasts` are the main tables as differences to the reference, `text_contrasts` those of methods that train the
    text tower alone to its plain fine-tuning; the others of contrasts likewise. `whole` has, of a split, the means over
    whole benchmarks, as papers print them. `blind` are comparisons of the main tables with rows that see no picture, by
    the table's name.
    """

    headline: tuple[ResultTable, ...]
    headline_contrasts: tuple[ResultTable, ...]
    left_out: tuple[ResultTable, ...]
    left_out_contrasts: tuple[ResultTable, ...]
    main: tuple[ResultTable, ...]
    subsets: tuple[ResultTable, ...]
    other_metrics: tuple[ResultTable, ...]
    contrasts: tuple[ResultTable, ...]
    text_contrasts: tuple[ResultTable, ...]
    whole: tuple[ResultTable, ...]
    blind: Mapping[str, BlindTable]


@dataclass(frozen=True)
class ReportPage:
    """All that is shown."""

    results: GridResults
    literature: Literature
    settings: PageSettings
    tables: PageTables
    findings: tuple[Finding, ...]

    def shared(self, group: ResultTable) -> SharedPictures:
        """Return which pictures of the benchmarks a table's trained rows have seen; empty where no row was trained."""
        overlaps = {} if group.by_method.keys() <= {PRETRAINED} else self.results.overlaps.get(group.data, {})
        return {name: counts for name, counts in overlaps.items() if name in self.results.benchmarks}

    def blind_rows(self, group: ResultTable) -> tuple[MethodRow, ...]:
        """Return a table's rows of what is scored without the picture."""
        return blind_comparison.make_blind_rows(group, self.results.blind.get(group.data, ()))

    @property
    def contrasts(self) -> dict[str, Sequence[ResultTable]]:
        """The tables of differences to trained methods, by what they are to."""
        contrasts: dict[str, Sequence[ResultTable]] = {}
        if self.settings.reference:
            contrasts[self.settings.reference] = self.tables.contrasts
        if self.tables.text_contrasts:
            contrasts[TEXT_TOWER] = self.tables.text_contrasts
        return contrasts

    @property
    def notes(self) -> dict[str, list[str]]:
        """Shared pictures in words, by table."""
        return {group.name: table_heads.describe_overlaps(group, self.shared(group)) for group in self.tables.main}


def build_page(results: GridResults, literature: Literature, settings: PageSettings) -> ReportPage:
    """Compute every table, and the verdicts on claims."""
    runs = results.runs
    reference = settings.reference
    correction = settings.correction
    tables.check_same_files(chain(runs, *results.blind.values()))
    selected = tables.select_columns(runs, settings.columns, results.benchmarks)
    main = (*tables.summary_columns(selected, runs), *selected)
    comp = next((column for column in main if column.name == f"{SUMMARY}/{composition_rule.COMP}"), None)
    headline = (*main, *(comp.members if comp else ()))
    left_out = tuple(composition_rule.leave_out_each(comp).values())
    remaining = [c for c in tables.list_columns(runs, results.benchmarks) if c not in main]
    columns = {c.name: c for c in (*main, *remaining)}
    checkpoints = trajectories.describe_checkpoints(results.curves)
    leaks = trajectories.find_leaks(checkpoints, settings.split.name)
    notes = {table_heads.TUNED: {**leaks, **results.tuned}, table_heads.CHOSEN: checkpoints}
    built = _build_tables(results, settings, (*headline, *left_out))
    notes[table_heads.SEARCHED] = tuned_rows.describe_searches(_select(built, main), results.tuning)
    uncorrected = [replace(table, row_marks=notes) for table in built]
    subsets = _build_tables(results, settings, [c for c in remaining if "/" in c.metric])
    whole_set_tables = _build_tables(results, settings, [c for c in remaining if "/" not in c.metric])
    contrasts = tables.build_contrasts(uncorrected, reference)
    headline_contrasts = _decide_tables(contrasts, headline, correction)
    headlines = _mark_tables(_decide_tables(built, headline, correction), notes, correction, headline_contrasts)
    whole = []
    if settings.split.name != WHOLE:
        whole = tables.build_tables(results.whole_runs, tuple(columns.values()))
    page_tables = PageTables(
        headline=headlines,
        headline_contrasts=headline_contrasts,
        left_out=_select(built, left_out),
        left_out_contrasts=_select(contrasts, left_out),
        main=_select(headlines, main),
        subsets=_mark_tables(_correct_tables(subsets, correction), notes, correction),
        other_metrics=_mark_tables(_correct_tables(whole_set_tables, correction), notes, correction),
        contrasts=_select(headline_contrasts, main),
        text_contrasts=_decide_tables(_build_text_contrasts(uncorrected, reference), main, correction),
        whole=tuple(whole),
        blind=_compare_blind(uncorrected, main, results.blind, correction),
    )
    judged = claims.judge_claims(literature.claims, uncorrected, columns, literature.numbers, correction)
    return ReportPage(results, literature, settings, page_tables, tuple(judged))


def _build_tables(results: GridResults, settings: PageSettings, columns: Sequence[Column]) -> list[ResultTable]:
    """Build the tables of some columns; none without columns."""
    return tables.build_tables(results.runs, columns, settings.split) if columns else []


def _build_text_contrasts(groups: Sequence[ResultTable], reference: str) -> list[ResultTable]:
    """Build the differences of methods that train the text tower alone to plain fine-tuning of that tower."""
    if reference == TEXT_TOWER:
        return []
    contrasts = []
    for group in tables.build_contrasts(groups, TEXT_TOWER):
        rows = [row for row in group.rows if row.runs and row.runs[0].config["train"].get("trainable") == "text"]
        if rows:
            contrasts.append(replace(group, rows=tuple(rows)))
    return contrasts


def _select(group_tables: Sequence[ResultTable], columns: Sequence[Column]) -> tuple[ResultTable, ...]:
    """Return tables with some of their columns alone; none without columns."""
    return tuple(table.select(columns) for table in group_tables) if columns else ()


def _decide_tables(
    group_tables: Sequence[ResultTable], columns: Sequence[Column], correction: str
) -> tuple[ResultTable, ...]:
    """Return some columns of tables, Comp decided by the rule, with the verdicts that a correction leaves."""
    decided = [composition_rule.decide_table(table) for table in group_tables]
    return _correct_tables(_select(decided, columns), correction)


def _correct_tables(group_tables: Sequence[ResultTable], correction: str) -> tuple[ResultTable, ...]:
    """Return tables with the verdicts that are decided after the correction, each table by itself."""
    return tuple(decisions.correct_table(table, correction) for table in group_tables)


def _mark_tables(
    group_tables: Sequence[ResultTable], notes: RowMarks, correction: str, contrasts: Sequence[ResultTable] = ()
) -> tuple[ResultTable, ...]:
    """Return tables with the marks of rows, and the ranks that are decided after the correction.

    The best at composition is that of `contrasts`, the tables as differences to the reference, where there are any.
    """
    compared = {table.name: table for table in contrasts if table.rows}
    marked = []
    for table in group_tables:
        best = composition_rule.find_best(compared.get(table.name, table))
        marked.append(decisions.mark_order(replace(table, row_marks=notes), correction, best))
    return tuple(marked)


def _compare_blind(
    group_tables: Sequence[ResultTable], columns: Sequence[Column], blind: Mapping[str, Sequence[FinishedRun]],
    correction: str,
) -> dict[str, BlindTable]:  # fmt: skip
    """Compare tables with blind rows, by name; their differences are those decided after the correction."""
    compared = {}
    for group in group_tables:
        table = blind_comparison.build_blind_table(group, blind.get(group.data, ()))
        if table:
            shown = [column for column in columns if column in table.gains.columns]
            (gains,) = _decide_tables([table.gains], shown, correction)
            compared[group.name] = replace(table, sighted=table.sighted.select(shown), gains=gains)
    return compared


def compare_tables(page: ReportPage) -> list[ComparedTable]:
    """Compare the rows of each main table with the report's reference."""
    contrasts = {group.name: group for group in page.tables.headline_contrasts}
    settings = page.settings
    compared = []
    for group in page.tables.headline:
        table = first_screen.compare_rows(group, contrasts.get(group.name), settings.reference)
        if table:
            is_chosen, is_drawn = bool(settings.columns), bool(settings.notice)
            table = replace(table, is_chosen=is_chosen, is_drawn=is_drawn)
            compared.append(replace(table, kindred=page.results.kindred, remarks=page.results.remarks))
    return compared


def render_page(page: ReportPage, out: Path = Path("reports")) -> str:
    """Render the HTML of a page in the folder `out`, the same bytes for the same run files."""
    environment = Environment(
        autoescape=True, finalize=hide_in_page, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.loader = FileSystemLoader(Path(__file__).parent)
    for module in TEMPLATE_MODULES:
        environment.globals[module.__name__.rpartition(".")[2]] = module
    for function in TEMPLATE_FUNCTIONS:
        environment.globals[function.__name__] = function
    for layout in (layout_differences, layout_means, layout_scores):
        environment.filters[layout.__name__] = layout
    root = page.results.root
    linked = Path(os.path.relpath(root / run_folder.RESULTS, out))
    galleries = row_items.make_galleries(page.tables.main, page.results.records, page.settings.items, root, linked)
    return environment.get_template("page.html.j2").render(page=page, galleries=galleries)


def list_facts(page: ReportPage) -> list[tuple[str, str]]:
    """List what the grid holds, as (name, values) pairs for the head of the page."""
    runs = page.results.runs
    cells = [run.cell for run in runs]
    methods = list(dict.fromkeys(str(c.method) for c in cells))
    trained = [run for run in runs if run.cell.method != PRETRAINED]
    split = page.settings.split
    pairs: dict[str, Sequence[str]] = {
        "methods": methods if len(methods) <= MANY else [f"{len(methods)}"],
        "backbone": [c.backbone for c in cells],
        "data": [c.data for c in cells],
        "seeds": [str(run.cell.seed) for run in trained or runs],
        "benchmarks": list(page.results.benchmarks),
        "scores of": [] if split.name == WHOLE else [split.describe()],
        "training took": [run_details.format_total_hours(trained)],
        "stand-in tokenizer": [f"{n} ({where})" for n, where in run_details.list_stand_in_tokenizers(runs)],
    }
    return [(name, ", ".join(dict.fromkeys(values))) for name, values in pairs.items() if values]


def describe_summaries(page: ReportPage) -> list[tuple[str, str]]:
    """Describe how each summary column is made of others."""
    formulas = []
    for name, column in (page.tables.main[0].summaries if page.tables.main else {}).items():
        members = []
        benchmarks = []
        for member in column.members:
            if member.members and member.benchmark != SUMMARY:
                benchmarks.append(f"{member.benchmark} ({', '.join(c.metric for c in member.members)})")
            members.append(member.metric if member.benchmark == SUMMARY else member.name)
        text = f"mean of {', '.join(members)}"
        if benchmarks:
            text = f"mean over benchmarks of the mean of a benchmark's columns: {'; '.join(benchmarks)}"
        formulas.append((name, text))
    return formulas


def draw_by_table(page: ReportPage, build: Any, lines: Sequence[Any], title: str) -> list[tuple[str, list[Markup]]]:
    """Draw `lines` over the axes of the trade-off figures, by table: `build(table, lines, x, y)` makes the ways."""
    drawn = []
    for group in page.tables.main:
        columns = group.summaries
        comp = columns.pop("Comp", None)
        figures = []
        for name, column in columns.items() if comp else ():
            ways = build(group, lines, column, comp)
            if ways:
                figures.append(report_figures.draw_trajectories(ways, name, title))
        if figures:
            drawn.append((group.name, figures))
    return drawn


def compare_published(page: ReportPage) -> list[PaperComparison]:
    """Compare the papers' tables with ours, over all columns of each group whose benchmark is the papers'."""
    comparisons = []
    for group in _join_tables(page):
        comparable = published_numbers.keep_comparable_columns(group, page.literature.official)
        comparisons += published_numbers.compare_tables(page.literature.numbers, comparable)
    return comparisons


def list_not_published(page: ReportPage) -> list[tuple[str, dict[str, list[str]]]]:
    """List by group and reason the benchmarks whose published numbers do not compare with ours."""
    names = {number.column for number in page.literature.numbers}
    incomparable = []
    for group in _join_tables(page):
        reasons = published_numbers.list_obstacles(group, names, page.literature.official)
        if reasons:
            incomparable.append((group.name, reasons))
    return incomparable


def _join_tables(page: ReportPage) -> list[ResultTable]:
    """Return the main tables with all columns of the other sections, of whole benchmarks."""
    if page.tables.whole:
        return list(page.tables.whole)
    joined = []
    for group in page.tables.main:
        for table in (*page.tables.subsets, *page.tables.other_metrics):
            if table.name == group.name:
                statistics = {}
                for row, other in zip(group.rows, table.rows, strict=True):
                    statistics[row.method] = {**row.statistics, **other.statistics}
                group = replace(group, columns=group.columns + table.columns).with_statistics(statistics)
        joined.append(group)
    return joined


# What the template calls, by these names.
TEMPLATE_MODULES = (
    claims, decisions, first_screen, published_numbers, report_figures, row_items, run_details, table_formats,
    trajectories, tuned_rows, validation_curves,
)  # fmt: skip
TEMPLATE_FUNCTIONS = (
    compare_tables, list_facts, describe_summaries, draw_by_table, compare_published, list_not_published, format_name,
)  # fmt: skip


# --- all files of a report: the page comes last


def write_report(page: ReportPage, out: Path) -> None:
    """Write all files of the report; each is whole or not there, and the page comes last."""
    groups = page.tables.main
    reference = page.settings.reference
    blind = {group.name: page.blind_rows(group) for group in groups}
    further_tables = (*page.tables.left_out, *page.tables.subsets, *page.tables.other_metrics)
    all_tables = (*page.tables.headline, *further_tables)
    contrasts = (*page.tables.headline_contrasts, *page.tables.left_out_contrasts)
    compared = compare_tables(page)
    files = {
        "report.md": _format_markdown(page, compared),
        "report.csv": table_formats.format_results_csv(all_tables),
        "report.tex": table_formats.format_latex(groups, page.notes, blind)
        + "".join(table_formats.format_contrasts_latex(of_base, base) for base, of_base in page.contrasts.items()),
        "claims.csv": claims.format_claims_csv(page.findings),
        "reference.csv": table_formats.format_contrasts_csv(contrasts, reference),
        "blind.csv": blind_comparison.format_blind_csv(groups, page.tables.blind, blind),
        "tuning.csv": tuned_rows.format_tuning_csv(page.results.tuning),
        "plots/wise_ft.csv": trajectories.format_lines_csv(groups, page.results.lines),
        "plots/training_curves.csv": trajectories.format_curves_csv(groups, page.results.curves),
    }
    for table in compared:
        files[f"plots/{name_forest(table)}"] = first_screen.draw_forest(table, standalone=True)
    files["index.html"] = render_page(page, out)
    write_json(out / "metrics.json", table_formats.flatten_means(groups))
    for name, text in files.items():
        if text:
            write_atomic(out / name, text.encode("utf-8", "replace"))


def _format_markdown(page: ReportPage, compared: Sequence[ComparedTable]) -> str:
    """Format what a pull request shows: a sentence a method, a figure and the headline table."""
    facts = " · ".join(f"{name} {values}" for name, values in list_facts(page))
    sections = [page.settings.notice, f"# Report\n\n{to_markdown(facts)}"]
    for table in compared:
        sections.append(f"## {to_markdown(table.table.name)}\n\n**{to_markdown(first_screen.describe_best(table))}**")
        head = table_formats.describe_head(table.table)
        sections.append(" ".join(f"{name}: {to_markdown(text)}." for name, text in head.items()))
        lines = [f"- **{to_markdown(method)}**: {to_markdown(text)}" for method, text in table.sentences]
        sections.append("\n".join(lines))
        sections.append(f"![differences to {to_markdown(table.label)}]({quote(f'plots/{name_forest(table)}')})")
        sections.append(table_formats.format_markdown_table(first_screen.select_headline(table)).rstrip())
        sections.append(first_screen.LEGEND.format(to_markdown(table.label)))
        sections += [f"{to_markdown(note)}." for note in first_screen.list_notes(table)]
        sections += [f"{SHARED} {to_markdown(note)}." for note in page.notes.get(table.table.name, ())]
        sections += [f"{to_markdown(note)}." for note in table_heads.describe_marks(table.table)]
    sections.append(decisions.describe_correction(page.settings.correction))
    if page.results.missing:
        lines = [f"- {to_markdown(m.cell)}: {to_markdown(m.reason)}" for m in page.results.missing]
        sections.append("## Missing\n\n" + "\n".join(lines))
    return "\n\n".join(filter(None, sections)) + "\n"


def name_forest(compared: ComparedTable) -> str:
    """Name the file of a table's figure."""
    return f"forest-{compared.table.backbone}-{compared.table.data}.svg"

"""One self-contained page: the tables, plots and details as text that the template lays out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from compclip.config.cell import PRETRAINED
from compclip.report import (
    claims_table,
    crossed_intervals,
    published_models,
    report_figures,
    run_details,
    shared_pictures,
    table_heads,
    table_rows,
    tables,
    wise_ft_lines,
)
from compclip.report.claims import Claim, Finding, judge_claims
from compclip.report.official_benchmarks import OfficialBenchmarks, keep_comparable_columns, list_obstacles
from compclip.report.published_numbers import TOLERANCE, PaperComparison, PublishedNumber, compare_tables
from compclip.report.run_collection import MissingResult
from compclip.report.shared_pictures import SharedPictures
from compclip.report.statistics import Interval
from compclip.report.table_formats import format_interval, format_number, span_benchmarks
from compclip.report.tables import SUMMARY, Column, MethodRow, ResultTable, Statistic
from compclip.runs.result_files import FinishedRun

RANK = {0: "", 1: "best", 2: "second"}
VERDICT = {1: "better", -1: "worse", 0: ""}
MANY = 25  # methods; the head of the page counts the variants of more
MARK = {1: "▲", -1: "▼", 0: ""}


@dataclass(frozen=True)
class ReportPage:
    """All that is shown: runs, the columns by section, what is missing, published numbers, the methods' defaults."""

    runs: tuple[FinishedRun, ...]
    benchmarks: tuple[str, ...]
    main: tuple[ResultTable, ...]
    parts: tuple[ResultTable, ...]
    rest: tuple[ResultTable, ...]
    missing: tuple[MissingResult, ...]
    published: tuple[PublishedNumber, ...]
    defaults: Callable[[FinishedRun], dict[str, Any]]
    findings: tuple[Finding, ...] = ()
    lines: tuple[wise_ft_lines.WiseFtLine, ...] = ()
    overlaps: Mapping[str, SharedPictures] = field(default_factory=dict)  # what each data set shares with benchmarks
    models: tuple[published_models.PublishedModel, ...] = ()  # published ones, to stand among
    reference: str = ""  # the method that all others are compared with, beside the pretrained model
    contrasts: tuple[ResultTable, ...] = ()  # the main tables as differences to it
    official: OfficialBenchmarks = field(
        default_factory=OfficialBenchmarks
    )  # the benchmarks that published numbers are of

    def shared(self, group: ResultTable) -> SharedPictures:
        """What a table's trained rows have seen of the benchmarks."""
        return shared_pictures.select_overlaps(group, self.overlaps, self.benchmarks)

    @property
    def notes(self) -> dict[str, list[str]]:
        """The same in words, by table; of tables without any nothing."""
        found = {group.name: shared_pictures.describe_overlaps(group, self.shared(group)) for group in self.main}
        return {name: told for name, told in found.items() if told}


def build_page(
    runs: Sequence[FinishedRun],
    benchmarks: Sequence[str],
    wanted: Sequence[str] | None,
    missing: Sequence[MissingResult],
    published: Sequence[PublishedNumber],
    defaults: Callable[[FinishedRun], dict[str, Any]],
    claims: Sequence[Claim] = (),
    lines: Sequence[wise_ft_lines.WiseFtLine] = (),
    shared: Mapping[str, SharedPictures] | None = None,
    models: Sequence[published_models.PublishedModel] = (),
    against: str = "",
    official: OfficialBenchmarks | None = None,
) -> ReportPage:
    """Compute every table. `main`: summary and chosen columns; `parts`: groups of items; `rest`: all other metrics.

    `against` is a method that all others are compared with, beside the pretrained model; "" for none.
    """
    tables.check_same_files(runs)
    shown = tables.select_columns(runs, wanted, benchmarks)
    main = (*tables.summary_columns(shown, runs), *shown)
    others = [c for c in tables.list_columns(runs, benchmarks) if c not in main]
    sections = (main, [c for c in others if "/" in c.metric], [c for c in others if "/" not in c.metric])
    made = [tuple(table_rows.build_tables(runs, s)) if s else () for s in sections]
    columns = {c.name: c for c in (*main, *others)}
    findings = tuple(judge_claims(claims, runs, made[0], columns, published))
    return ReportPage(
        tuple(runs),
        tuple(benchmarks),
        *made,
        tuple(missing),
        tuple(published),
        defaults,
        findings,
        tuple(lines),
        shared or {},
        tuple(models),
        against,
        tuple(table_rows.build_contrasts(made[0], against)),
        official or OfficialBenchmarks(),
    )


def render_page(page: ReportPage) -> str:
    """The page's HTML, the same bytes for the same run files."""
    names, counts = run_details.tabulate_counts(page.runs, page.benchmarks)
    return _template().render(
        facts=list_facts(page),
        missing=page.missing,
        missing_cells=len({m.cell for m in page.missing}),
        formulas=describe_summaries(page),
        main=[layout_means(g, page.shared(g)) for g in page.main],
        parts=[layout_means(g) for g in page.parts],
        rest=[layout_means(g) for g in page.rest],
        intervals=[layout_differences(g) for g in page.main],
        reference=page.reference,
        contrasts=[layout_differences(g) for g in page.contrasts],
        tradeoffs=[(g.name, f, list_tradeoff_numbers(g)) for g in page.main if (f := draw_tradeoffs(g))],
        lines=[(g.name, f) for g in page.main if (f := draw_wise_ft(g, page.lines))],
        losses=[(g.name, f) for g in page.main if (f := draw_losses(g))],
        published=compare_published(page),
        tolerance=TOLERANCE,
        standings=rank_among_models(page),
        models=len(page.models),
        not_published=list_incomparable(page, {number.column for number in page.published}),
        not_among=list_incomparable(page, {column for model in page.models for column in model.values}),
        claims=claims_table.build_sections(page.findings),
        claims_rule=claims_table.RULE,
        count_names=names,
        counts=counts,
        group_counts=run_details.count_groups(page.runs),
        hours=tabulate_hours(page),
        machines=run_details.tabulate_runs(page.runs),
        versions=run_details.list_package_versions(page.runs),
        settings=list_settings(page),
        view_shares=run_details.tabulate_view_shares(page.main),
    )


def _template() -> Template:
    loader = FileSystemLoader(Path(__file__).parent)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return made.get_template("page.html.j2")


def list_facts(page: ReportPage) -> list[tuple[str, str]]:
    """What the grid holds, as (name, values) pairs for the head of the page."""
    cells = [r.cell for r in page.runs]
    pairs = {
        "methods": abbreviate_methods([c.method for c in cells]),
        "backbone": [c.backbone for c in cells],
        "data": [c.data for c in cells],
        "seeds": [str(c.seed) for c in cells if c.method != PRETRAINED] or [str(c.seed) for c in cells],
        "benchmarks": list(page.benchmarks),
    }
    pairs["GPU-hours"] = [run_details.format_total_hours([r for r in page.runs if r.cell.method != PRETRAINED])]
    pairs["stand-in tokenizer"] = [
        f"{name} ({where})" for name, where in run_details.list_stand_in_tokenizers(page.runs)
    ]
    return [(name, ", ".join(dict.fromkeys(values))) for name, values in pairs.items() if values]


def abbreviate_methods(names: Sequence[str]) -> list[str]:
    """Every method; of a long list the variants by number."""
    names = list(dict.fromkeys(names))
    if len(names) <= MANY:
        return names
    count = Counter(name.partition(".")[0] for name in names)
    return [f"{base} ({n} variants)" if n > 1 else base for base, n in count.items()]


def tabulate_hours(page: ReportPage) -> list[tuple[str, list[run_details.MethodHours]]]:
    """GPU-hours of every trained row by table; none where no run says."""
    if run_details.sum_device_seconds(page.runs) is None:
        return []
    found = [
        (g.name, [run_details.sum_method_hours(r.method, r.runs) for r in g.rows if r.method != PRETRAINED])
        for g in page.main
    ]
    return [(name, rows) for name, rows in found if rows]


def describe_summaries(page: ReportPage) -> list[tuple[str, str]]:
    """How each summary column is made of others."""
    found = [c for g in page.main[:1] for c in g.columns if c.benchmark == SUMMARY]
    return [(c.metric, _formula(c)) for c in found]


def _formula(column: Column) -> str:
    if all(part.benchmark == SUMMARY for part in column.parts):
        return "mean of " + ", ".join(part.metric for part in column.parts)
    inner = "; ".join(f"{p.benchmark} ({', '.join(q.metric for q in p.parts)})" for p in column.parts if p.parts)
    return (
        f"mean over benchmarks of the mean of a benchmark's columns: {inner}"
        if inner
        else "mean of " + ", ".join(p.name for p in column.parts)
    )


@dataclass(frozen=True)
class TableCell:
    """A number as the table shows it; `key` sorts."""

    text: str
    small: str
    css: str
    mark: str
    title: str
    key: str
    figure: str = ""
    basis: str = ""


EMPTY = TableCell("–", "", "none", "", "no result", "")


def layout_means(group: ResultTable, shared: SharedPictures | None = None) -> dict[str, Any]:
    """A table of means: header spans, columns, and rows of shown numbers; a mark at benchmarks that were seen."""
    made, shared = _table(group, group.rows, _shown), shared or {}
    notes = [
        f"{shared_pictures.MARK} {note}" for note in shared_pictures.describe_overlaps(group, shared)
    ] + table_heads.describe_marks(group)
    return made | {"seen": dict.fromkeys(shared, shared_pictures.MARK), "notes": notes}


def layout_differences(group: ResultTable) -> dict[str, Any]:
    """A table of differences with their intervals; without what they are to, or alone, no rows."""
    rows = [row for row in group.rows if any(e and e.change is not None for e in row.statistics)]
    limits = [_limit([row.statistics[i] for row in rows]) for i in range(len(group.columns))]
    return _table(group, rows, lambda e, c: _difference(e, c, limits[group.columns.index(c)]))


def _table(
    group: ResultTable, rows: Sequence[MethodRow], show: Callable[[Statistic | None, Column], TableCell]
) -> dict[str, Any]:
    lines = [(r.method, r.seeds, [show(e, c) for e, c in zip(r.statistics, group.columns, strict=True)]) for r in rows]
    labels = {row.method: table_heads.row_label(row, group) for row in rows}
    starts = {i for i, c in enumerate(group.columns) if i and group.columns[i - 1].benchmark != c.benchmark}
    spans = span_benchmarks(group.columns)
    columns = {"spans": spans, "columns": group.columns, "starts": starts, "marks": table_heads.partial_marks(group)}
    head = {"backbone": table_heads.describe_backbone(group), "records": table_heads.describe_records(group)}
    head |= {"scored": table_heads.benchmark_coverage(group), "seen": {}}
    return {"name": group.name, "rows": lines, "labels": labels, "notes": [], **columns, **head}


def _shown(found: Statistic | None, column: Column) -> TableCell:
    if found is None:
        return EMPTY
    small = "" if found.std is None else "±" + format_number(found.std, column)
    title = f"{column.name}: {found.mean:.4f}, {found.seeds} seed{'s' * (found.seeds > 1)}"
    css = f"{RANK[found.rank]} {VERDICT[found.verdict]}".strip()
    return TableCell(format_number(found.mean, column), small, css, MARK[found.verdict], title, f"{found.mean:.6f}")


def _limit(column: Sequence[Statistic | None]) -> float:
    ends = [abs(v) for e in column if e and e.difference for v in (e.difference.low, e.difference.high)]
    return max(ends, default=0.0) or 1.0


def _difference(found: Statistic | None, column: Column, limit: float) -> TableCell:
    if found is None or found.change is None:
        return EMPTY
    text, key = format_number(found.change, column, sign=True), f"{found.change:.6f}"
    gap = found.difference
    if gap is None:
        return TableCell(text, "no items", "", "", "the benchmark keeps no items of this metric", key)
    figure = Markup(report_figures.draw_interval(gap.low, gap.high, gap.estimate, limit, found.verdict))
    css, mark = VERDICT[found.verdict], MARK[found.verdict]
    return TableCell(
        text,
        format_interval(gap, column),
        css,
        mark,
        _rests_on(found, gap),
        key,
        figure,
        crossed_intervals.describe_basis(found.basis),
    )


def _rests_on(found: Statistic, gap: Interval) -> str:
    """How many pairs an interval rests on, and where its seeds count, or could have, what it is over."""
    pairs = f"{gap.items} item pairs"
    return f"over {found.basis}: {found.seeds} seed{'s' * (found.seeds > 1)}, {pairs}" if found.basis else pairs


def draw_tradeoffs(group: ResultTable) -> list[Markup]:
    """Compositionality against zero-shot and retrieval, one figure for each summary column."""
    places = [i for i, c in enumerate(group.columns) if c.benchmark == SUMMARY]
    names = [group.columns[i].metric for i in places]
    chosen = [[row.statistics[i] for i in places] for row in group.rows]
    found, short = (
        report_figures.collect_tradeoffs(group, chosen, names),
        report_figures.number_methods([row.method for row in group.rows]),
    )
    short = short or {row.method: table_heads.row_label(row, group) for row in group.rows}
    return [Markup(report_figures.draw_tradeoff(points, name, short)) for name, points in found.items()]


def list_tradeoff_numbers(group: ResultTable) -> list[tuple[str, str]]:
    """Number and method, where the figures have numbers."""
    return [
        (number, method) for method, number in report_figures.number_methods([row.method for row in group.rows]).items()
    ]


def draw_wise_ft(group: ResultTable, lines: Sequence[wise_ft_lines.WiseFtLine]) -> list[Markup]:
    """The WiSE-FT lines over the same axes as the trade-off figures."""
    columns = {c.metric: c for c in wise_ft_lines.list_summary_columns(group)}
    comp = columns.pop("Comp", None)
    found = (
        {name: wise_ft_lines.build_trajectories(group, lines, c, comp) for name, c in columns.items()} if comp else {}
    )
    return [Markup(report_figures.draw_trajectories(t, name)) for name, t in found.items() if t]


def draw_losses(group: ResultTable) -> list[tuple[str, Markup]]:
    """One figure of loss curves for each method that was trained."""
    drawn = [(row.method, report_figures.draw_loss(row.runs, f"Loss of {row.method}")) for row in group.rows]
    return [(method, Markup(svg)) for method, svg in drawn if svg]


def compare_published(page: ReportPage) -> list[PaperComparison]:
    """The papers' tables beside ours, over all columns of each group whose benchmark is the papers'."""
    groups = [keep_comparable_columns(group, page.official) for group in _whole(page)]
    return [comparison for group in groups for comparison in compare_tables(page.published, group)]


def rank_among_models(page: ReportPage) -> list[published_models.Standing]:
    """Each method among published models, over all columns of each group whose benchmark is theirs."""
    groups = [keep_comparable_columns(group, page.official) for group in _whole(page)]
    return [standing for group in groups for standing in published_models.compute_standings(group, page.models)]


def list_incomparable(page: ReportPage, names: Collection[str]) -> list[tuple[str, dict[str, list[str]]]]:
    """Of each group the benchmarks with published numbers that ours do not compare with, by the reason."""
    found = [(group.name, list_obstacles(group, names, page.official)) for group in _whole(page)]
    return [(name, reasons) for name, reasons in found if reasons]


def _whole(page: ReportPage) -> list[ResultTable]:
    """The groups with all their columns."""
    parts = (*page.parts, *page.rest)
    return [_joined(group, [g for g in parts if g.name == group.name]) for group in page.main]


def _joined(group: ResultTable, others: Sequence[ResultTable]) -> ResultTable:
    columns, rows = group.columns, group.rows
    for other in others:
        columns += other.columns
        rows = tuple(
            MethodRow(a.method, a.runs, a.statistics + b.statistics) for a, b in zip(rows, other.rows, strict=True)
        )
    return ResultTable(group.backbone, group.data, columns, rows)


def list_settings(page: ReportPage) -> list[tuple[str, list[run_details.ChangedSetting]]]:
    """Each trained method's parameters that differ from their defaults; by backbone and data where these differ."""
    found: dict[str, dict[str, list[run_details.ChangedSetting]]] = {}
    for group in page.main:
        for row in group.rows:
            if row.method != PRETRAINED and row.runs and row.runs[0].config:
                found.setdefault(row.method, {})[group.name] = run_details.list_changed_settings(
                    row.runs[0], page.defaults
                )
    return [pair for method, own in found.items() for pair in _named(method, own)]


def _named(
    method: str, own: dict[str, list[run_details.ChangedSetting]]
) -> list[tuple[str, list[run_details.ChangedSetting]]]:
    first, *others = own.values()
    if all(other == first for other in others):
        return [(method, first)]
    return [(f"{method}, {where}", settings) for where, settings in own.items()]
